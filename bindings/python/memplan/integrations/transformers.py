# SPDX-License-Identifier: MIT
"""A callback of transformers' Trainer: refuses before the first step, records the peak after it."""

from __future__ import annotations

import logging
from typing import Any, Optional

from transformers.trainer_callback import TrainerCallback

from .. import _card, _command, _peaks
from .._command import Ledger
from .._errors import CommandError, LibraryError, MemplanError, PlanError, Refused
from .._estimate import CANNOT_TELL, Estimate, estimate, refuse
from .._plan import Plan, PlanLike
from .._watch import watch

log = logging.getLogger("memplan")

_RAISE, _EXIT, _WARN = "raise", "exit", "warn"


class MemplanCallback(TrainerCallback):  # type: ignore[misc]
    """``Trainer(..., callbacks=[MemplanCallback(sequence_length=4096)])``

    The plan is the given one, or that of the Trainer's model and arguments, with ``fields`` as in
    ``Plan.set``. on_refuse: "raise" (DoesNotFit, InsideMargin), "exit" (SystemExit with the
    command's code, 3 or 4), "warn". A run is refused on a verdict alone: where memplan is missing,
    or cannot model it, that is said and it goes on. Without a GPU nothing is done, which is said.
    """

    def __init__(
        self,
        plan: Optional[PlanLike] = None,
        *,
        accept_margin: bool = False,
        on_refuse: str = _RAISE,
        record: bool = True,
        ledger: Ledger = None,
        risk: Optional[float] = None,
        **fields: Any,
    ) -> None:
        if on_refuse not in (_RAISE, _EXIT, _WARN):
            raise ValueError(f"on_refuse {on_refuse!r}: expected raise, exit or warn")
        self.accept_margin = accept_margin
        self.on_refuse = on_refuse
        self.record = record
        self.ledger = ledger
        self.risk = risk
        self.fields = fields
        self.plan: Optional[Plan] = Plan(plan, **fields) if plan is not None else None
        self.estimate: Optional[Estimate] = None
        self.recorded: list[str] = []
        self._failure: Optional[Exception] = None
        self._has_evaluated = False

    # ---- before ----

    def _make_plan(self, args: Any, model: Any) -> None:
        """Before the model is wrapped, where that is possible: FSDP flattens its parameters."""
        if self.plan is not None or model is None:
            return
        try:
            self.plan = Plan.from_model(model, args, **self.fields)
            self._failure = None
        except (MemplanError, AttributeError, TypeError) as failure:
            self._failure = failure

    def on_init_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """The Trainer is made: what it will run is known."""
        self._make_plan(args, kwargs.get("model"))

    def _ask(self, plan: Plan) -> Estimate:
        """The ledger and the model; without the command the model alone."""
        if self.ledger is not False and _command.command():
            try:
                return _command.consult(plan, ledger=self.ledger, risk=self.risk)
            except CommandError as failure:
                _warn("the ledger was not asked: %s", failure)
        return estimate(plan, risk=self.risk, suggestions=False)

    def _check(self) -> None:
        if self.plan is None:
            raise self._failure or PlanError("no model was given")
        self.estimate = self._ask(self.plan)
        if self.estimate.mismatch:
            _warn("not checked: %s", self.estimate.mismatch)
            self.plan = None  # what is measured is no reading of that plan either
        elif self.estimate.code == CANNOT_TELL:
            _warn("%s", self.estimate.reason)
        else:
            refuse(self.estimate, accept_margin=self.accept_margin)
            log.info("memplan: %s", self.estimate)

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Before step 0. All ranks come to the same verdict."""
        if not _card.cuda():
            _warn("no GPU: nothing is checked or recorded")
            return
        self._make_plan(args, kwargs.get("model"))
        try:
            self._check()
        except Refused as refusal:
            self._refuse(refusal)
        except (PlanError, LibraryError, AttributeError, TypeError) as failure:
            _warn("not checked: %s", failure)
        _peaks.reset()

    def _refuse(self, refusal: Refused) -> None:
        if self.on_refuse == _RAISE:
            raise refusal
        _warn("refused: %s" if self.on_refuse == _EXIT else "running although it %s", refusal)
        if self.on_refuse == _EXIT:
            raise SystemExit(refusal.code)

    # ---- after ----

    def on_prediction_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """An evaluation, which a plan counts only where it says so."""
        self._has_evaluated = True

    def _reading_plan(self, state: Any) -> Optional[Plan]:
        """The plan as it was run: fewer steps than planned may not have reached the peak."""
        steps = int(getattr(state, "global_step", 0))
        if self.plan is None or steps < 1:
            return None
        planned = self.plan.get("training.steps", 3)
        if isinstance(planned, int) and steps < planned:
            return self.plan.set(**{"training.steps": steps})
        return self.plan

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Training ended well: its peak is a reading of the plan."""
        if not self.record or self.ledger is False or not _card.cuda():
            return
        peaks = _peaks.read_worst()
        if not _peaks.is_first_rank():
            return
        try:
            self._record(self._reading_plan(state), peaks)
        except MemplanError as failure:
            _warn("nothing recorded: %s", failure)

    def _record(self, plan: Optional[Plan], peaks: dict[str, int]) -> None:
        if plan is None:
            return
        is_counted = bool(plan.get("training.evaluation.batches", 0))
        if self._has_evaluated and not is_counted:
            # The peak may be the evaluation's, which the plan is not of.
            self._say(_command.record(plan, ran=True, ledger=self.ledger))
            return
        for metric, size in peaks.items():
            self._say(_command.record(plan, bytes=size, metric=metric, ledger=self.ledger))

    def _say(self, line: str) -> None:
        self.recorded.append(line)
        log.info("memplan: %s", line)

    def watch(self) -> watch:
        """``with callback.watch(): trainer.train()`` records an out-of-memory error, too."""
        if self.plan is None:
            raise PlanError(f"no plan to watch: {self._failure or 'the Trainer is not made yet'}")
        return watch(self.plan, ledger=self.ledger, peaks=False)


def _warn(text: str, *values: Any) -> None:
    if _peaks.is_first_rank():
        log.warning("memplan: " + text, *values)
