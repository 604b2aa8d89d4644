"""The steps that stand for the run, and how long they take."""

from dataclasses import dataclass, replace

import numpy as np

from lightning_gpuprof.arrays import Int64, Mask
from lightning_gpuprof.records.reader import Session
from lightning_gpuprof.records.schema import OutsideSpan, StepFlag


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
    """Describe the values (shape `(n,)`), or return None where there are none."""
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
"""Stretches of the run whose means are compared: few and long, as a machine's speed drifts over
many steps, and enough that their spread is known to within a fifth."""
STUDENT = 1.8
"""Student's t of so many, two-sided 90 %."""


def error_of_mean_frac(values_ns: Int64) -> float:
    """Return half the 90 % interval of a mean as a share of it; 0 of fewer than two values.

    Zeros are left out: how often a validation runs is no matter of chance.

    >>> [round(error_of_mean_frac(np.array(one)), 2) for one in ([0, 10, 10], [8, 12])]
    [0.0, 0.36]
    """
    taken = values_ns[values_ns > 0]
    if len(taken) < 2:
        return 0.0
    means = np.array([one.mean() for one in np.array_split(taken, min(BATCHES, len(taken)))])
    return float(STUDENT * means.std(ddof=1) / np.sqrt(len(means)) / means.mean())


_APART = StepFlag.WARMUP | StepFlag.COMPILED | StepFlag.UNFINISHED
SLOWED_BY_MEASURING = StepFlag.PROFILED | StepFlag.WATCHED
MIN_STEADY = 3
"""Fewer steps than this have no median worth the name: the next wider choice is taken."""
EARLY = 30
"""Steps enough for a median, and few enough that what grows has hardly grown in them."""


@dataclass(frozen=True)
class StepsApart:
    """Steps that are reported for themselves: why, how many, and their cost."""

    reason: str
    """warmup, compiled, profiled or watched."""
    count: int
    total_ns: int
    median_ns: int


@dataclass(frozen=True)
class StepStats:
    """How long a training step takes, over the steady steps; the mean counts unmarked ones too."""

    count: int
    """All recorded steps."""
    ran: int
    """These and the steps that were not marked."""
    total_ns: int
    basis: str
    """"steady", or for lack of steady steps "measured" (profiler on) or "all"."""
    dur: Distribution
    plain_p50_ns: int
    jitter_frac: float
    """How far the 95th percentile lies above the median, as a share of the median."""
    apart: tuple[StepsApart, ...]
    epochs: int | None


def steady_mask(flags: Int64) -> tuple[Mask, str]:
    """Choose the steps that stand for the run.

    >>> mask, basis = steady_mask(np.array([1, 0, 0, 4, 0]))
    >>> mask.tolist(), basis
    ([False, True, True, False, True], 'steady')
    """
    for left_out, basis in ((_APART | SLOWED_BY_MEASURING, "steady"), (_APART, "measured")):
        mask = (flags & int(left_out)) == 0
        if mask.sum() >= min(MIN_STEADY, len(flags)):
            return mask, basis
    return np.ones(len(flags), dtype=np.bool_), "all"


def steady_steps(session: Session) -> Mask:
    """Return which steps of a session stand for the run."""
    return steady_mask(step_flags(session))[0]


def step_stats(session: Session, mean_ns: int | None = None) -> StepStats | None:
    """Describe a session's steps, or return None where it recorded none."""
    if not session.steps:
        return None
    columns = session.columns
    dur = columns["dur_ns"]
    mask, basis = steady_mask(step_flags(session))
    over = distribution(dur[mask])
    assert over is not None
    plain = distribution(_without_pauses(session)[mask])
    assert plain is not None
    return StepStats(
        count=session.steps,
        ran=session.steps + sum(span.steps for span in session.all(OutsideSpan)),
        total_ns=int(dur.sum()),
        basis=basis,
        dur=over if mean_ns is None else replace(over, mean_ns=mean_ns),
        plain_p50_ns=plain.p50_ns,
        jitter_frac=(plain.p95_ns - plain.p50_ns) / max(1, plain.p50_ns),
        apart=_apart(session),
        epochs=len(np.unique(columns["epoch"])) if "epoch" in columns else None,
    )


def step_flags(session: Session) -> Int64:
    """Return each step's `StepFlag` sum; zeros where flags were not recorded."""
    return session.columns.get("flags", np.zeros(session.steps, dtype=np.int64))


def mean_samples(session: Session, steady: Mask) -> float | None:
    """Return the mean samples per steady step; None where some of them did not say."""
    samples = session.columns.get("samples")
    if samples is None or not steady.any() or (samples[steady] <= 0).any():
        return None
    return float(samples[steady].mean())


def _without_pauses(session: Session) -> Int64:
    plain = session.columns["dur_ns"]
    for name in ("phase/validation", "phase/checkpoint"):
        if name in session.columns:
            plain = plain - session.columns[name]
    return plain


def _apart(session: Session) -> tuple[StepsApart, ...]:
    flags, dur, apart = step_flags(session), session.columns["dur_ns"], []
    for flag in (StepFlag.WARMUP, StepFlag.COMPILED, StepFlag.PROFILED, StepFlag.WATCHED):
        has_it = (flags & flag) != 0
        chosen = dur[has_it]
        if len(chosen):
            name = str(flag.name).lower()
            apart.append(StepsApart(name, len(chosen), int(chosen.sum()), median(chosen)))
    return tuple(apart)
