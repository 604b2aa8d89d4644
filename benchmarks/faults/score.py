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
STUDENT = {1: 12.7, 2: 4.30, 3: 3.18, 4: 2.78, 5: 2.57, 7: 2.36, 10: 2.23, 15: 2.13, 30: 2.04}
"""Student's t, two-sided 95 %, by degrees of freedom; of those between, the next one below."""


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
    """Median over the blocks of faulty minus fixed, per step."""
    saved_error_ns: float | None
    """95 % of measurements like this one lie so far from the truth at most; None of one block."""
    profiled_step_ns: int | None
    """The step of the run that the report is about: beside `faulty_ns`, how much faster or slower
    the machine was when it was recorded, the profiler's own cost included."""
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

    def as_dict(self) -> dict[str, Any]:
        derived = ("first", "inside", "middle_error_frac", "told", "near")
        return asdict(self) | {name: getattr(self, name) for name in derived}


def judge(
    cause: Cause,
    *,
    wanted_frac: float,
    knob: float,
    said: Said,
    faulty_ns: Sequence[float],
    fixed_ns: Sequence[float],
    pairs: int = 1,
) -> Verdict:
    """Return the verdict on one case; the two series are blocks taken in turn, pair after pair."""
    rank = next((place for place, one in enumerate(said) if cause.accepts(one["id"])), None)
    named = None if rank is None else said[rank]
    saving = None if named is None else named["saving_ns"]
    savings = [slow - fast for slow, fast in zip(faulty_ns, fixed_ns, strict=True)]
    return Verdict(
        case=cause.name,
        wanted_frac=wanted_frac,
        knob=knob,
        faulty_ns=Spread.of(faulty_ns),
        fixed_ns=Spread.of(fixed_ns),
        said=[brief(one) for one in said],
        rank=rank,
        advice_right=_advice_right(cause, named),
        saved_ns=statistics.median(savings),
        saved_error_ns=error_ns(savings, pairs),
        profiled_step_ns=(named or {}).get("evidence", {}).get("step_ns"),
        predicted_ns=None if saving is None else (saving["low"], saving["high"]),
    )


def error_ns(savings_ns: Sequence[float], pairs: int) -> float | None:
    """Return how far the median of savings, block by block, may be from the truth (95 %).

    Two processes differ by where their memory comes to lie, whatever their blocks say: of three
    pairs and more the pairs are what is compared, of fewer their blocks, which say too little.
    """
    each = len(savings_ns) // pairs
    values = list(savings_ns)
    if pairs >= 3:
        values = [statistics.median(values[at : at + each]) for at in range(0, len(values), each)]
    if len(values) < 2:
        return None
    freedom = len(values) - 1
    student = STUDENT[max(known for known in STUDENT if known <= freedom)]
    return student * statistics.stdev(values) / len(values) ** 0.5


def brief(finding: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parts of a finding that the results keep."""
    kept = ("id", "severity", "title", "advice", "change", "saving_ns", "confidence")
    return {name: finding[name] for name in kept if finding.get(name) is not None}


def false_alarms(said: Said) -> list[str]:
    """Return the ids said of a clean run with severity warning or higher."""
    return [one["id"] for one in said if one["severity"] in ("warning", "critical")]


def summary(verdicts: Sequence[Verdict], controls: Mapping[str, Said]) -> dict[str, Any]:
    """Return the counts that the suite is judged by."""
    return {
        "case_count": len(verdicts),
        "first_count": sum(v.first for v in verdicts),
        "named_count": sum(v.rank is not None for v in verdicts),
        "inside_count": sum(v.inside is True for v in verdicts),
        "near_count": sum(v.near for v in verdicts),
        "told_count": sum(v.told for v in verdicts),
        "near_told_count": sum(v.near and v.told for v in verdicts),
        "control_count": len(controls),
        "false_alarm_count": sum(bool(false_alarms(said)) for said in controls.values()),
    }


def _advice_right(cause: Cause, named: Mapping[str, Any] | None) -> bool | None:
    if cause.advice_says is None or named is None:
        return None
    text = f"{named['advice']}\n{named.get('change') or ''}"
    return re.search(cause.advice_says, text) is not None
