# SPDX-License-Identifier: MIT
"""What PyTorch measured: peaks of the caching allocator, and what ran out of memory."""

from __future__ import annotations

import sys
from typing import Any, Dict, Optional

from . import _card


def is_out_of_memory(error: Optional[BaseException]) -> bool:
    """torch.OutOfMemoryError, itself or as the reason of another error."""
    seen = 0
    while error is not None and seen < 16:
        if any(kind.__name__ == "OutOfMemoryError" for kind in type(error).__mro__):
            return True
        error, seen = error.__cause__ or error.__context__, seen + 1
    return False


def reason(error: BaseException) -> BaseException:
    """The out-of-memory error among the reasons of an error."""
    found: Optional[BaseException] = error
    while found is not None:
        if any(kind.__name__ == "OutOfMemoryError" for kind in type(found).__mro__):
            return found
        found = found.__cause__ or found.__context__
    return error


def reset() -> None:
    """From here on peaks count."""
    cuda = _card.cuda()
    if cuda:
        cuda.reset_peak_memory_stats()


def read() -> Dict[str, int]:
    """Peaks of this rank, in bytes: "allocated", and "reserved" unless the card was full.

    An allocator that had to give back what it held has a smaller reserved peak than it would have
    had, and the plan's figure is that on a card without limit.
    """
    cuda = _card.cuda()
    if not cuda:
        return {}
    peaks = {"allocated": int(cuda.max_memory_allocated())}
    if not cuda.memory_stats().get("num_alloc_retries", 0):
        peaks["reserved"] = int(cuda.max_memory_reserved())
    return peaks


def distributed() -> Optional[Any]:
    """torch.distributed, where this process is one of several."""
    found = getattr(sys.modules.get("torch"), "distributed", None)
    if found is None or not found.is_available() or not found.is_initialized():
        return None
    return found if found.get_world_size() > 1 else None


def read_worst() -> Dict[str, int]:
    """Peaks of the rank that holds most. Every rank must call it."""
    peaks, group = read(), distributed()
    if not group or not peaks:
        return peaks
    torch = sys.modules["torch"]
    # A rank without a reserved figure makes it unknown for all.
    worst = torch.tensor(
        [peaks["allocated"], peaks.get("reserved", 0), int("reserved" not in peaks)],
        dtype=torch.int64,
        device="cuda",
    )
    group.all_reduce(worst, op=group.ReduceOp.MAX)
    allocated, reserved, is_unknown = (int(value) for value in worst.tolist())
    return {"allocated": allocated} if is_unknown else {
        "allocated": allocated, "reserved": reserved
    }  # fmt: skip


def is_first_rank() -> bool:
    """The rank that speaks and writes for all."""
    group = distributed()
    return group is None or group.get_rank() == 0
