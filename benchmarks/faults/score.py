"""Compares what a report said with what the fix then saved. No I/O, no training."""

import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from _harness import Spread
from cause import Cause

Said = Sequence[Mapping[str, Any]]
"""The findings of `report --json`, ranked."""
NEAR_FRAC = 0.25
"""How far the middle of a prediction may lie from the measured saving to count as near."""


@dataclass(frozen=True)
class Verdict:
    """One case: what was said, what the fix saved."""

    case: str
    wanted_frac: float
    knob: float
    faulty_ns: Spread
    fixed_ns: Spread
    said: list[dict[str, Any]]
    rank: int | None
    """Place of the first finding that names the cause, from 0; None where none does."""
    advice_right: bool | None
    """None where the cause asks nothing of the advice."""
    saved_ns: float
    """Median over the rounds of faulty minus fixed, per step."""
    predicted_ns: tuple[int, int] | None

    @property
    def first(self) -> bool:
        """Whether the first finding names the cause and its advice fits."""
        return self.rank == 0 and self.advice_right is not False

    @property
    def inside(self) -> bool | None:
        """Whether the measured saving lies in the predicted interval; None without one."""
        if self.predicted_ns is None:
            return None
        return self.predicted_ns[0] <= self.saved_ns <= self.predicted_ns[1]

    @property
    def middle_error_frac(self) -> float | None:
        """How far the middle of the prediction is from the measured saving."""
        if self.predicted_ns is None or self.saved_ns <= 0:
            return None
        return sum(self.predicted_ns) / 2 / self.saved_ns - 1

    def as_dict(self) -> dict[str, Any]:
        derived = ("first", "inside", "middle_error_frac")
        return asdict(self) | {name: getattr(self, name) for name in derived}


def judge(
    cause: Cause,
    *,
    wanted_frac: float,
    knob: float,
    said: Said,
    faulty_ns: Sequence[float],
    fixed_ns: Sequence[float],
) -> Verdict:
    """Return the verdict on one case; the two series are rounds taken in turn."""
    rank = next((place for place, one in enumerate(said) if cause.accepts(one["id"])), None)
    named = None if rank is None else said[rank]
    saving = None if named is None else named["saving_ns"]
    pairs = zip(faulty_ns, fixed_ns, strict=True)
    return Verdict(
        case=cause.name,
        wanted_frac=wanted_frac,
        knob=knob,
        faulty_ns=Spread.of(faulty_ns),
        fixed_ns=Spread.of(fixed_ns),
        said=[brief(one) for one in said],
        rank=rank,
        advice_right=_advice_right(cause, named),
        saved_ns=statistics.median(slow - fast for slow, fast in pairs),
        predicted_ns=None if saving is None else (saving["low"], saving["high"]),
    )


def brief(finding: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parts of a finding that the results keep."""
    kept = ("id", "severity", "title", "advice", "change", "saving_ns", "confidence")
    return {name: finding[name] for name in kept if finding.get(name) is not None}


def false_alarms(said: Said) -> list[str]:
    """Return the ids said of a clean run with severity warning or higher."""
    return [one["id"] for one in said if one["severity"] in ("warning", "critical")]


def summary(verdicts: Sequence[Verdict], controls: Mapping[str, Said]) -> dict[str, Any]:
    """Return the counts that the suite is judged by."""
    errors = [v.middle_error_frac for v in verdicts if v.middle_error_frac is not None]
    return {
        "case_count": len(verdicts),
        "first_count": sum(v.first for v in verdicts),
        "named_count": sum(v.rank is not None for v in verdicts),
        "inside_count": sum(v.inside is True for v in verdicts),
        "near_count": sum(abs(error) <= NEAR_FRAC for error in errors),
        "control_count": len(controls),
        "false_alarm_count": sum(bool(false_alarms(said)) for said in controls.values()),
    }


def _advice_right(cause: Cause, named: Mapping[str, Any] | None) -> bool | None:
    if cause.advice_says is None or named is None:
        return None
    text = f"{named['advice']}\n{named.get('change') or ''}"
    return re.search(cause.advice_says, text) is not None
