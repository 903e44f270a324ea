# SPDX-License-Identifier: MIT
"""A block of code that is a run of a plan: what becomes of it goes to the ledger."""

from __future__ import annotations

import logging
from types import TracebackType
from typing import Optional, Type

from . import _command, _peaks
from ._command import Ledger
from ._errors import MemplanError
from ._plan import Plan, PlanLike

log = logging.getLogger("memplan")


class watch:
    """``with memplan.watch(plan): train()`` records the outcome, and changes nothing else.

    torch.OutOfMemoryError that leaves the block is recorded and goes on its way; a block that ends
    well is recorded with its peaks (of several ranks: that it ran). Other errors, and blocks that
    had no card, leave no record. What cannot be recorded is said by logging, never raised.
    """

    def __init__(self, plan: PlanLike, *, ledger: Ledger = None, peaks: bool = True) -> None:
        self.plan = Plan(plan)
        self.ledger = ledger
        self.peaks = peaks
        self.recorded: list[str] = []

    def __enter__(self) -> "watch":
        if self.peaks:
            _peaks.reset()
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        try:
            if error is not None and _peaks.is_out_of_memory(error):
                self._say(_command.record_failure(self.plan, _peaks.reason(error),
                                                  ledger=self.ledger))  # fmt: skip
            elif error is None and self.peaks:
                self._record_peaks()
        except MemplanError as failure:
            log.warning("memplan: nothing recorded: %s", failure)

    def _say(self, line: str) -> None:
        self.recorded.append(line)
        log.info("memplan: %s", line)

    def _record_peaks(self) -> None:
        found = _peaks.read()
        if not found or not _peaks.is_first_rank():
            return
        if _peaks.distributed():
            # Another rank may hold more, and to ask it could wait for one that failed.
            self._say(_command.record(self.plan, ran=True, ledger=self.ledger))
            return
        for metric, size in found.items():
            self._say(_command.record(self.plan, bytes=size, metric=metric, ledger=self.ledger))
