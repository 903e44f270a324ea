# SPDX-License-Identifier: MIT
"""What can go wrong, as exceptions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Optional

if TYPE_CHECKING:
    from ._estimate import Estimate


class MemplanError(Exception):
    """Base of all exceptions here."""


class LibraryError(MemplanError):
    """The shared library is missing, or is another one than this module was written for."""


class CommandError(MemplanError):
    """The memplan command is missing, or failed."""


class PlanError(MemplanError, ValueError):
    """A plan, or a configuration that should become one, is invalid or not modelled.

    ``status`` is "impossible value", "not modelled", ...; ``pointer`` the JSON pointer of the field
    at fault, "" where there is none; ``source``, ``line`` and ``column`` say where it was read.
    """

    def __init__(
        self,
        text: str,
        *,
        status: str = "impossible value",
        pointer: str = "",
        source: str = "",
        line: int = 0,
        column: int = 0,
    ) -> None:
        where = source
        if line:
            where = f"{source or 'plan'}:{line}"
            if column:
                where += f":{column}"
        super().__init__(": ".join(part for part in (where, pointer, text) if part))
        self.text = text
        self.status = status
        self.pointer = pointer
        self.source = source
        self.line = line
        self.column = column


class Refused(MemplanError):
    """A run that should not start. ``code`` is the exit code that the command would give."""

    code = 3

    def __init__(self, text: str, estimate: Optional["Estimate"] = None) -> None:
        super().__init__(text)
        self.estimate = estimate


class DoesNotFit(Refused):
    """The verdict is does_not_fit."""

    code = 3


class InsideMargin(DoesNotFit):
    """The verdict is inside_margin: the chance of running out of memory is above the risk."""

    code = 4


for _kind in (MemplanError, LibraryError, CommandError, PlanError, Refused, DoesNotFit):
    _kind.__module__ = "memplan"  # the name that callers know, in their tracebacks
InsideMargin.__module__ = "memplan"
