# SPDX-License-Identifier: MIT
"""The card of this process, as PyTorch sees it, as fields of a plan."""

from __future__ import annotations

import ctypes
import os
import sys
from typing import Any, Dict, Optional

from . import _library
from ._errors import PlanError

_SAME_CARD = 0.02  # totals of one card differ by driver by less than this share


def cuda() -> Optional[Any]:
    """torch.cuda where this process has a card; None without one, or without torch."""
    torch = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "cuda"):
        return None
    try:
        return torch.cuda if torch.cuda.is_available() else None
    except (RuntimeError, AssertionError):
        return None


def _row() -> _library.Gpu:
    return _library.Gpu(size=ctypes.sizeof(_library.Gpu))


def find(name: str, compute_capability: int, total_bytes: int) -> Optional[str]:
    """The card table's name: by the name alone, or where several begin so by memory too."""
    row = _row()
    try:
        _library.call("gpu_find", name.encode(), ctypes.byref(row))
        return row.name.decode()
    except PlanError:
        pass
    index = 0
    while _library.load().memplan_gpu_entry(index, ctypes.byref(row)):
        if (
            row.name.decode().startswith(name)
            and row.compute_capability == compute_capability
            and row.total_low_bytes * (1 - _SAME_CARD) <= total_bytes
            and total_bytes <= row.total_high_bytes * (1 + _SAME_CARD)
        ):
            return row.name.decode()
        index += 1
        row = _row()
    return None


def fields() -> Dict[str, Any]:
    """What the current card's properties and the environment say; empty without a card."""
    found = cuda()
    if not found:
        return {}
    seen = found.get_device_properties(found.current_device())
    capability = 10 * seen.major + seen.minor
    name = find(seen.name, capability, seen.total_memory)
    values: Dict[str, Any] = {
        "device.total_bytes": int(seen.total_memory),
        "device.multiprocessors": int(seen.multi_processor_count),
        "device.source": f"torch.cuda.get_device_properties: {seen.name}",
    }
    if name:
        values["device.gpu"] = name
    if not getattr(getattr(sys.modules["torch"], "version", None), "hip", None):
        values["device.compute_capability"] = capability / 10
    conf = os.environ.get("PYTORCH_CUDA_ALLOC_CONF") or os.environ.get("PYTORCH_ALLOC_CONF")
    if conf:
        values["device.allocator.conf"] = conf
    loading = os.environ.get("CUDA_MODULE_LOADING", "").lower()
    if loading in ("lazy", "eager"):
        values["device.module_loading"] = loading
    return values
