"""The steady steps, which stand for the run, and how long they take."""

from dataclasses import dataclass, replace

import numpy as np

from lightning_gpuprof.arrays import Int64, Mask
from lightning_gpuprof.records.reader import Session
from lightning_gpuprof.records.schema import NOT_STEADY, OutsideSpan, StepFlag


@dataclass(frozen=True)
class Distribution:
    """Count, mean and percentiles of a time per step, in whole nanoseconds."""

    count: int
    mean_ns: int
    min_ns: int
    p50_ns: int
    p95_ns: int
    p99_ns: int
    max_ns: int


def distribution(values_ns: Int64) -> Distribution | None:
    """Describe values of shape `(n,)`; None if there are none."""
    if not len(values_ns):
        return None
    p50, p95, p99 = np.percentile(values_ns, (50, 95, 99))
    return Distribution(
        count=len(values_ns),
        mean_ns=mean(values_ns),
        min_ns=int(values_ns.min()),
        p50_ns=round(float(p50)),
        p95_ns=round(float(p95)),
        p99_ns=round(float(p99)),
        max_ns=int(values_ns.max()),
    )


def mean(values_ns: Int64) -> int:
    """Return the mean of at least one value, rounded to whole nanoseconds."""
    return round(int(values_ns.sum()) / len(values_ns))


def median(values_ns: Int64) -> int:
    """Return the median of at least one value, rounded to whole nanoseconds."""
    return round(float(np.median(values_ns)))


BATCHES = 12
"""Stretches of the run whose means are compared. They are few and long because a machine's speed
drifts over many steps, and enough to know their standard deviation to within a fifth."""
STUDENT = 1.8
"""Student's t for so many stretches, two-sided 90%."""


def error_of_mean_frac(values_ns: Int64) -> float:
    """Return half the 90% interval of a mean as a share of it; 0 for fewer than two values.

    Zeros are left out, because how often a validation runs is not left to chance.

    >>> [round(error_of_mean_frac(np.array(values)), 2) for values in ([0, 10, 10], [8, 12])]
    [0.0, 0.36]
    """
    positive = values_ns[values_ns > 0]
    if len(positive) < 2:
        return 0.0
    stretches = np.array_split(positive, min(BATCHES, len(positive)))
    means = np.array([stretch.mean() for stretch in stretches])
    return float(STUDENT * means.std(ddof=1) / np.sqrt(len(means)) / means.mean())


_NEVER = StepFlag.WARMUP | StepFlag.UNFINISHED
_APART = _NEVER | StepFlag.COMPILED
SLOWED_BY_MEASURING = StepFlag.PROFILED | StepFlag.WATCHED
MIN_STEADY = 3
"""Fewer steps have no meaningful median, so that a wider choice of steps is used."""
EARLY = 30
"""Enough steps for a median, and few enough that a growing phase has hardly grown in them."""


@dataclass(frozen=True)
class StepsApart:
    """Steps that are reported separately from the steady ones."""

    reason: str
    """warmup, compiled, profiled or watched."""
    count: int
    total_ns: int
    median_ns: int


@dataclass(frozen=True)
class StepStats:
    """How long a training step takes, over the steady steps."""

    count: int
    """All recorded steps."""
    ran: int
    """All steps, timed by phase or not."""
    total_ns: int
    basis: str
    """"steady", or if there are too few steady steps "measured" (profiled ones too), "compiled"
    (those that compiled something too) or "all"."""
    dur: Distribution
    """Of the steady steps; the mean includes untimed steps."""
    plain_p50_ns: int
    """The median without validation and checkpoints."""
    jitter_frac: float
    """By how much the 95th percentile exceeds the median, as a share of it; without validation and
    checkpoints."""
    apart: tuple[StepsApart, ...]
    epochs: int | None


def steady_mask(flags: Int64) -> tuple[Mask, str]:
    """Choose the steps that stand for the run, and return the basis of the choice.

    >>> mask, basis = steady_mask(np.array([1, 0, 0, 4, 0]))
    >>> mask.tolist(), basis
    ([False, True, True, False, True], 'steady')
    """
    choices = (
        (NOT_STEADY, "steady"),
        (_APART, "measured"),
        (_NEVER, "compiled"),
    )
    for left_out, basis in choices:
        mask = (flags & int(left_out)) == 0
        if mask.sum() >= min(MIN_STEADY, len(flags)):
            return mask, basis
    return np.ones(len(flags), dtype=np.bool_), "all"


def steady_steps(session: Session) -> Mask:
    """Return which steps of a session stand for the run."""
    return steady_mask(step_flags(session))[0]


def step_stats(session: Session, mean_ns: int | None = None) -> StepStats | None:
    """Describe a session's steps; None if it recorded none.

    Args:
        session: The session.
        mean_ns: The mean step, including untimed steps.
    """
    if not session.steps:
        return None
    columns = session.columns
    dur = columns["dur_ns"]
    mask, basis = steady_mask(step_flags(session))
    durations = distribution(dur[mask])
    assert durations is not None
    plain = distribution(without_pauses(session)[mask])
    assert plain is not None
    return StepStats(
        count=session.steps,
        ran=session.steps + sum(span.steps for span in session.all(OutsideSpan)),
        total_ns=int(dur.sum()),
        basis=basis,
        dur=durations if mean_ns is None else replace(durations, mean_ns=mean_ns),
        plain_p50_ns=plain.p50_ns,
        jitter_frac=(plain.p95_ns - plain.p50_ns) / max(1, plain.p50_ns),
        apart=_apart(session),
        epochs=len(np.unique(columns["epoch"])) if "epoch" in columns else None,
    )


def step_flags(session: Session) -> Int64:
    """Return the `StepFlag` sum of every step; zeros if flags were not recorded."""
    return session.columns.get("flags", np.zeros(session.steps, dtype=np.int64))


def mean_samples(session: Session, steady: Mask) -> float | None:
    """Return the mean samples per steady step; None if some steps did not record them."""
    samples = session.columns.get("samples")
    if samples is None or not steady.any() or (samples[steady] <= 0).any():
        return None
    return float(samples[steady].mean())


def without_pauses(session: Session) -> Int64:
    """Return the durations of steps without validation and checkpoints."""
    plain = session.columns["dur_ns"]
    for name in ("phase/validation", "phase/checkpoint"):
        if name in session.columns:
            plain = plain - session.columns[name]
    return plain


def _apart(session: Session) -> tuple[StepsApart, ...]:
    flags, dur, apart = step_flags(session), session.columns["dur_ns"], []
    for flag in (StepFlag.WARMUP, StepFlag.COMPILED, StepFlag.PROFILED, StepFlag.WATCHED):
        chosen = dur[(flags & flag) != 0]
        if len(chosen):
            name = str(flag.name).lower()
            apart.append(StepsApart(name, len(chosen), int(chosen.sum()), median(chosen)))
    return tuple(apart)
