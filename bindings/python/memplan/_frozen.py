# SPDX-License-Identifier: MIT
"""Names of frozen parameters as a few shell patterns (training.frozen)."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Dict, List, Set

from ._errors import PlanError

MOST = 16  # patterns of a plan


def _prefixes(name: str) -> List[str]:
    parts = name.split(".")
    return [".".join(parts[: i + 1]) for i in range(len(parts))]


def _whole(train: List[str], frozen: List[str]) -> List[str]:
    """The shortest prefixes below which nothing trains."""
    open_ones: Set[str] = {prefix for name in train for prefix in _prefixes(name)}
    found: Dict[str, None] = {}
    for name in frozen:
        first = next((prefix for prefix in _prefixes(name) if prefix not in open_ones), name)
        found[first if first == name else first + ".*"] = None
    return list(found)


def _common(pattern: str) -> str:
    """The pattern with any number in the place of numbers: the same part of every layer."""
    return ".".join("*" if part.isdigit() else part for part in pattern.split("."))


def patterns(train: List[str], frozen: List[str]) -> List[str]:
    """Patterns that match all of frozen and none of train. Raises PlanError above 16."""
    if not frozen or not train:
        return ["*"] if frozen else []
    found: List[str] = []
    for pattern in _whole(train, frozen):
        wide = _common(pattern)
        if not any(fnmatchcase(name, wide) for name in train):
            pattern = wide
        if pattern not in found:
            found.append(pattern)
    if len(found) > MOST:
        raise PlanError(
            f"the parameters that do not train need {len(found)} patterns, expected at most {MOST}",
            status="not modelled",
            pointer="/training/frozen",
        )
    return found
