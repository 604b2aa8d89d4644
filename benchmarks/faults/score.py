"""Compares a report with the saving of the fix. No I/O, no training."""

import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from _harness import Spread, error_summary
from cause import Cause

Said = Sequence[Mapping[str, Any]]
"""The findings of `report --json`: the one that is proposed first, then the others by saving."""
NEAR_FRAC = 0.25
"""How far the middle of a prediction may lie from the measured saving to count as near."""
DERIVED = ("first", "inside", "middle_error_frac", "told", "near", "step_error_frac")
AT_SPEED = ("inside", "near", "step_error_frac")
"""Kept of a verdict, and of the same at the machine's speed."""
STUDENT = {1: 12.7, 2: 4.30, 3: 3.18, 4: 2.78, 5: 2.57, 7: 2.36, 10: 2.23, 15: 2.13, 30: 2.04}
"""Student's t, two-sided 95 %, by degrees of freedom; of those between, the next one below."""


@dataclass(frozen=True)
class Pair:
    """Two runs that took turns: the step time of each period of one and of the other.

    Args:
        slow_ns: Of the run with the fault.
        fast_ns: Of the run with the fix, as many.
        median_ns: The median step of the run with the fault.
    """

    slow_ns: Sequence[float]
    fast_ns: Sequence[float]
    median_ns: float

    def savings_ns(self) -> list[float]:
        """Return what the fix saved per step in each period."""
        return [slow - fast for slow, fast in zip(self.slow_ns, self.fast_ns, strict=True)]


def saving_ns(pairs: Iterable[Pair]) -> float:
    """Return what the fix saves per step: the median of all periods leaves out bursts."""
    return statistics.median(saving for pair in pairs for saving in pair.savings_ns())


def error_ns(pairs: Sequence[Pair]) -> float | None:
    """Return how far a saving may be from the truth (95 %); None of one period.

    Two processes differ by where their memory comes to lie, whatever their periods say: of three
    pairs and more the pairs are what is compared, of fewer their periods, which say too little.
    """
    if len(pairs) >= 3:
        values = [saving_ns([pair]) for pair in pairs]
    else:
        values = [saving for pair in pairs for saving in pair.savings_ns()]
    if len(values) < 2:
        return None
    freedom = len(values) - 1
    student = STUDENT[max(known for known in STUDENT if known <= freedom)]
    return student * statistics.stdev(values) / len(values) ** 0.5


@dataclass(frozen=True)
class Verdict:
    """One case: the findings, and the saving of the fix."""

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
    """Faulty minus fixed, per step: the median of all periods."""
    saved_error_ns: float | None
    """The 95 % error of the saving; None of a single period."""
    pair_saved_ns: list[float]
    """The saving by each pair alone."""
    slower: float
    """The faulty program's median step when the saving was measured, over that of the reported run:
    above 1 the machine was slower."""
    predicted_ns: tuple[float, float] | None
    likely_ns: float | None
    """The one figure that was predicted: the finding's `likely_ns`, or the middle without it."""

    @property
    def first(self) -> bool:
        """Whether the first finding names the cause and its advice fits."""
        return self.rank == 0 and self.advice_right is not False

    @property
    def inside(self) -> bool | None:
        """Whether the measured saving lies in the predicted interval; None without one."""
        if self.predicted_ns is None:
            return None
        low, high = self.predicted_ns
        return low <= self.saved_ns <= high

    @property
    def middle_error_frac(self) -> float | None:
        """How far the middle of the prediction is from the measured saving."""
        if self.predicted_ns is None or self.saved_ns <= 0:
            return None
        return sum(self.predicted_ns) / 2 / self.saved_ns - 1

    @property
    def step_error_frac(self) -> float | None:
        """How far the predicted new step time is from the measured one, as a share of that."""
        if self.likely_ns is None:
            return None
        measured_ns = self.faulty_ns.median - self.saved_ns
        return step_error(self.faulty_ns.median - self.likely_ns, measured_ns)

    @property
    def told(self) -> bool:
        """Whether the measured saving itself is known to a quarter of it."""
        error = self.saved_error_ns
        return error is not None and error <= NEAR_FRAC * self.saved_ns

    @property
    def near(self) -> bool:
        """Whether the middle of the prediction is within a quarter of the measured saving."""
        error = self.middle_error_frac
        return error is not None and abs(error) <= NEAR_FRAC

    @property
    def at_speed(self) -> "Verdict":
        """This case with the prediction scaled to the machine's speed at the measurement."""
        low, high = self.predicted_ns or (0, 0)
        return replace(
            self,
            predicted_ns=self.predicted_ns and (low * self.slower, high * self.slower),
            likely_ns=self.likely_ns and self.likely_ns * self.slower,
        )

    def as_dict(self) -> dict[str, Any]:
        scaled = {name: getattr(self.at_speed, name) for name in AT_SPEED}
        derived = {name: getattr(self, name) for name in DERIVED}
        return {**asdict(self), **derived, "at_speed": scaled}


def step_error(predicted: float, measured: float) -> float:
    """Return the relative error of a predicted step time.

    >>> step_error(90.0, 100.0)
    0.1
    """
    return abs(predicted - measured) / measured


def right_first(cause: Cause, said: Said) -> bool:
    """Tell whether the first finding names the cause and its advice fits."""
    named = bool(said) and cause.accepts(said[0]["id"])
    return named and _advice_right(cause, said[0]) is not False


def judge(
    cause: Cause,
    *,
    wanted_frac: float,
    knob: float,
    said: Said,
    pairs: Sequence[Pair],
    profiled_ns: float,
    other_fix: bool = False,
) -> Verdict:
    """Return the verdict on one case; `profiled_ns` is the median step of the reported run.

    Where the report proposes another fix than the one that was measured (`other_fix`) its
    prediction is of something else, and none here.
    """
    rank = next((place for place, one in enumerate(said) if cause.accepts(one["id"])), None)
    named = None if rank is None else said[rank]
    saving = None if named is None or other_fix else named["saving_ns"]
    likely = saving and named.get("likely_ns", (saving["low"] + saving["high"]) / 2)
    return Verdict(
        case=cause.name,
        wanted_frac=wanted_frac,
        knob=knob,
        faulty_ns=Spread.of(one for pair in pairs for one in pair.slow_ns),
        fixed_ns=Spread.of(one for pair in pairs for one in pair.fast_ns),
        said=[brief(one) for one in said],
        rank=rank,
        advice_right=_advice_right(cause, named),
        saved_ns=saving_ns(pairs),
        saved_error_ns=error_ns(pairs),
        pair_saved_ns=[saving_ns([pair]) for pair in pairs],
        slower=statistics.median(pair.median_ns for pair in pairs) / profiled_ns,
        predicted_ns=None if saving is None else (saving["low"], saving["high"]),
        likely_ns=likely,
    )


def brief(finding: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parts of a finding that the results keep."""
    kept = ("id", "severity", "title", "advice", "change", "saving_ns", "likely_ns", "confidence")
    return {name: finding[name] for name in kept if finding.get(name) is not None}


def false_alarms(said: Said) -> list[str]:
    """Return the ids said of a clean run with severity warning or higher."""
    return [one["id"] for one in said if one["severity"] in ("warning", "critical")]


def summary(verdicts: Sequence[Verdict], controls: Mapping[str, Said]) -> dict[str, Any]:
    """Return the counts that the suite is judged by."""
    at_speed = [verdict.at_speed for verdict in verdicts]
    return {
        "case_count": len(verdicts),
        "first_count": sum(v.first for v in verdicts),
        "named_count": sum(v.rank is not None for v in verdicts),
        "inside_count": sum(v.inside is True for v in verdicts),
        "inside_at_speed_count": sum(v.inside is True for v in at_speed),
        "near_count": sum(v.near for v in verdicts),
        "near_at_speed_count": sum(v.near for v in at_speed),
        "told_count": sum(v.told for v in verdicts),
        "step_error": error_summary(v.step_error_frac for v in verdicts),
        "step_error_at_speed": error_summary(v.step_error_frac for v in at_speed),
        "control_count": len(controls),
        "false_alarm_count": sum(bool(false_alarms(said)) for said in controls.values()),
    }


def _advice_right(cause: Cause, named: Mapping[str, Any] | None) -> bool | None:
    if cause.advice_says is None or named is None:
        return None
    text = f"{named['advice']}\n{named.get('change') or ''}"
    return re.search(cause.advice_says, text) is not None
