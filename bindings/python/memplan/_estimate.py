# SPDX-License-Identifier: MIT
"""What a plan leads to: estimates, verdicts, the boundary of a field."""

from __future__ import annotations

import ctypes
import json
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Tuple

from . import _library
from ._errors import DoesNotFit, InsideMargin
from ._plan import Plan, PlanLike

FITS, DOES_NOT_FIT, INSIDE_MARGIN, CANNOT_TELL = 0, 3, 4, 5

_STAGES = {"spec": 1, "timeline": 2, "replay": 4}
_TRENDS = ("level", "rises", "falls", "turns")
_GIB = float(1 << 30)


def _chance(chance: float) -> str:
    if chance > 0.999:
        return "> 99.9 %"
    return "< 0.1 %" if chance < 0.001 else f"{100 * chance:.1f} %"


class Estimate:
    """The answer. ``report`` is the whole of it (docs/json.md); sizes are bytes of the worst rank.

    A figure that this plan has no value for is None.
    """

    __slots__ = ("report", "plan")

    def __init__(self, report: Dict[str, Any], plan: Plan) -> None:
        self.report = report
        self.plan = plan

    def __getitem__(self, key: str) -> Any:
        return self.report[key]

    def _peak(self, key: str) -> Any:
        return self.report.get("peak", {}).get(key)

    @property
    def verdict(self) -> str:
        """ "fits", "does_not_fit", "inside_margin" or "cannot_tell"."""
        return str(self.report["verdict"])

    @property
    def code(self) -> int:
        """The verdict as the exit code of the command: 0, 3, 4 or 5."""
        return int(self.report["code"])

    @property
    def reason(self) -> str:
        """The verdict's reason in one plain sentence."""
        return str(self.report["reason"])

    @property
    def fits(self) -> bool:
        """The verdict is "fits"."""
        return self.code == FITS

    @property
    def survival_probability(self) -> Optional[float]:
        """The chance that every rank survives."""
        return self._peak("survival_probability")

    @property
    def live_bytes(self) -> Optional[int]:
        """Tensors that are alive at one moment."""
        return self._peak("live_bytes")

    @property
    def allocated_bytes(self) -> Optional[int]:
        """torch.cuda.max_memory_allocated"""
        return self._peak("allocated_bytes")

    @property
    def reserved_bytes(self) -> Optional[int]:
        """torch.cuda.max_memory_reserved, on a card without limit."""
        return self._peak("reserved_bytes")

    @property
    def needs_bytes(self) -> Optional[Tuple[int, int]]:
        """Below the first the run always failed, from the second on it always survived."""
        band = self._peak("needs_bytes")
        return (band[0], band[1]) if band else None

    @property
    def device_bytes(self) -> Optional[int]:
        """What the card shows: reserved, context, NCCL, others."""
        return self._peak("device_bytes")

    @property
    def usable_bytes(self) -> Optional[int]:
        """What the card can give to PyTorch's allocator."""
        return self.report.get("capacity", {}).get("usable_bytes")

    @property
    def parameters(self) -> Optional[int]:
        """Count, whole model, tied ones once."""
        return self.report.get("parameters")

    @property
    def trainable_parameters(self) -> Optional[int]:
        """Count of those that train."""
        return self.report.get("trainable_parameters")

    @property
    def notes(self) -> List[str]:
        """What was assumed, or is not modelled."""
        return [f"{note['code']}: {note['text']}" for note in self.report.get("notes", [])]

    @property
    def mismatch(self) -> Optional[str]:
        """How the live model that the plan is of differs from what was estimated; None: not."""
        live = self.plan.live
        if not live or self.parameters is None:
            return None
        for name, found in (
            ("parameters", live.parameters),
            ("trainable parameters", live.trainable_parameters),
        ):
            planned = self.report[name.replace(" ", "_")]
            if found != planned:
                return f"the model has {found} {name}, the estimate is of {planned}"
        return None

    def _needs_left(self) -> Optional[Tuple[int, int]]:
        """The band of needs over all alternatives that the readings leave."""
        bands = [
            item["peak"]["needs_bytes"]
            for item in self.report.get("alternatives", [])
            if "excluded_by" not in item and item.get("peak", {}).get("needs_bytes")
        ]
        if not bands:
            return self.needs_bytes
        return min(band[0] for band in bands), max(band[1] for band in bands)

    def _description(self) -> str:
        """What stands behind a plan's name in the line of `memplan check`."""
        if "ledger" in self.report:
            return str(self.report["ledger"]["text"])
        band, usable, chance = self._needs_left(), self.usable_bytes, self.survival_probability
        low, high = (f"{size / _GIB:.2f}" for size in band) if band else ("?", "?")
        needs = f"needs {low if low == high else f'{low} .. {high}'} GiB"
        if not usable or chance is None:
            return f"{needs}; no card is given"
        text = f"{needs} of {usable / _GIB:.2f} GiB, survival {_chance(chance)}"
        for suggestion in self.report.get("suggestions", [])[:1]:
            tokens = suggestion["set"].get("training.sequence_length")
            text += f"; {tokens} tokens would fit" if tokens else ""
        return text

    def __str__(self) -> str:
        return f"{self.verdict.replace('_', ' ')}: {self._description()}"

    def __repr__(self) -> str:
        return f"<memplan.Estimate {self}>"


def _options(
    risk: Optional[float], readings: bool, suggestions: bool, all_ranks: bool, peaks_only: bool
) -> _library.Options:
    return _library.Options(
        size=ctypes.sizeof(_library.Options),
        risk=risk or 0.0,
        ignore_readings=not readings,
        no_suggestions=not suggestions,
        all_ranks=all_ranks,
        peaks_only=peaks_only,
    )


def _run(plan: Plan, options: _library.Options) -> _library.Object:
    with plan._object() as given:
        return _library.Object(
            lambda out: _library.call("estimate", given, ctypes.byref(options), out), "report_free"
        )


def estimate(
    plan: PlanLike,
    *,
    risk: Optional[float] = None,
    readings: bool = True,
    suggestions: bool = True,
    all_ranks: bool = False,
    peaks_only: bool = False,
    **fields: Any,
) -> Estimate:
    """Runs the plan and judges it, as `memplan --no-ledger --json` does.

    risk is the largest accepted chance that "fits" is wrong (0.01); peaks_only leaves out the band
    of needs and what the peak is made of, for a part of the time. ``fields`` are those of
    ``Plan.set``. Raises PlanError where the plan is invalid or asks for what is not modelled.
    """
    made = Plan(plan, **fields)
    with _run(made, _options(risk, readings, suggestions, all_ranks, peaks_only)) as report:
        return Estimate(json.loads(_library.call_text("report_to_json", report)), made)


def refuse(answer: Estimate, *, accept_margin: bool = False) -> None:
    """Raises DoesNotFit or InsideMargin where the answer says that a run should not start."""
    if answer.code == DOES_NOT_FIT:
        raise DoesNotFit(str(answer), answer)
    if answer.code == INSIDE_MARGIN and not accept_margin:
        raise InsideMargin(str(answer), answer)


def check(plan: PlanLike, *, accept_margin: bool = False, **options: Any) -> Estimate:
    """The estimate of a run that may start; raises DoesNotFit, or InsideMargin.

    A verdict of "cannot_tell" is no refusal: it comes back. ``options`` are those of ``estimate``.
    """
    options.setdefault("suggestions", False)
    answer = estimate(plan, **options)
    refuse(answer, accept_margin=accept_margin)
    return answer


def dump(plan: PlanLike, stage: str, **fields: Any) -> str:
    """A stage's dump: "spec" (the plan with its defaults), "timeline" or "replay"."""
    if stage not in _STAGES:
        raise ValueError(f"stage {stage!r}: expected one of {', '.join(_STAGES)}")
    options = _options(None, True, False, False, False)
    options.dump_stages = _STAGES[stage]
    with _run(Plan(plan, **fields), options) as report:
        return _library.call_text("report_dump", report, _STAGES[stage])


@dataclass(frozen=True)
class Point:
    """One value that was judged. Where ``text`` says why, there are no figures."""

    value: int
    verdict: str
    text: str
    survival_probability: Optional[float]
    allocated_bytes: int
    reserved_bytes: int
    needs_bytes: Optional[Tuple[int, int]]
    usable_bytes: int


@dataclass(frozen=True)
class Boundary:
    """The outermost value of a field with which the plan fits, and the next one, which does not."""

    field: str
    verdict: str
    value: Optional[int]
    fails: Optional[int]
    multiple_of: int
    allocated: str
    one_boundary: bool
    complete: bool
    nothing_tried_above: Optional[int]
    reason: str
    points: Tuple[Point, ...]


def _verdict_name(code: int) -> str:
    return str(_library.load().memplan_verdict_name(code).decode())


def _point(point: _library.Point) -> Point:
    s = point.summary
    return Point(
        value=point.value,
        verdict=_verdict_name(s.verdict),
        text=_library._text(point.text),
        survival_probability=s.survival_probability if s.survival_probability >= 0 else None,
        allocated_bytes=s.allocated_bytes,
        reserved_bytes=s.reserved_bytes,
        needs_bytes=(s.needs_low_bytes, s.needs_high_bytes) if s.needs_high_bytes else None,
        usable_bytes=s.usable_bytes,
    )


def _points(search: ctypes.c_void_p) -> Tuple[Point, ...]:
    found: List[Point] = []
    point = _library.Point(size=ctypes.sizeof(_library.Point))
    while _library.load().memplan_search_point(search, len(found), ctypes.byref(point)):
        found.append(_point(point))
    return tuple(found)


def _search(
    plan: PlanLike,
    field: str,
    wants_least: bool,
    from_: Optional[int],
    to: Optional[int],
    multiple_of: int,
    risk: Optional[float],
) -> Boundary:
    options = _library.SearchOptions(
        size=ctypes.sizeof(_library.SearchOptions),
        field=_library.find_field(field)["path"].encode(),
        from_=from_ or 0,
        to=to or 0,
        has_from=from_ is not None,
        has_to=to is not None,
        multiple_of=multiple_of,
        wants_least=wants_least,
        risk=risk or 0.0,
    )
    r = _library.SearchResult(size=ctypes.sizeof(_library.SearchResult))
    with Plan(plan)._object() as given:
        made = _library.Object(
            lambda out: _library.call("search", given, ctypes.byref(options), out), "search_free"
        )
    with made as search:
        _library.call("search_describe", search, ctypes.byref(r))
        return Boundary(
            field=_library._text(r.field.path),
            verdict=_verdict_name(r.verdict),
            value=r.value if r.verdict == FITS else None,
            fails=r.beyond if r.has_beyond else None,
            multiple_of=r.multiple_of,
            allocated=_TRENDS[r.trend],
            one_boundary=not r.has_hole,
            complete=not r.is_spent,
            nothing_tried_above=r.cut_at if r.is_cut else None,
            reason=_library._text(r.reason),
            points=_points(search),
        )


def max_value(
    plan: PlanLike,
    field: str = "training.sequence_length",
    *,
    from_: Optional[int] = None,
    to: Optional[int] = None,
    multiple_of: int = 0,
    risk: Optional[float] = None,
) -> Boundary:
    """The largest value of a field with which the plan fits, as `memplan max`."""
    return _search(plan, field, False, from_, to, multiple_of, risk)


def min_value(
    plan: PlanLike,
    field: str,
    *,
    from_: Optional[int] = None,
    to: Optional[int] = None,
    multiple_of: int = 0,
    risk: Optional[float] = None,
) -> Boundary:
    """The least value of a field with which the plan fits, as `memplan min`."""
    return _search(plan, field, True, from_, to, multiple_of, risk)
