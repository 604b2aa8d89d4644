"""Steps in which torch.compile compiled."""

from collections import Counter
from dataclasses import dataclass

import numpy as np

from lightning_gpuprof.analysis.run.steady import (
    MIN_STEADY,
    SLOWED_BY_MEASURING,
    median,
    step_flags,
)
from lightning_gpuprof.arrays import Int64, Mask
from lightning_gpuprof.records.facts import CompileTime
from lightning_gpuprof.records.reader import Session
from lightning_gpuprof.records.schema import OutsideSpan, StepFlag


@dataclass(frozen=True)
class Compiling:
    """Compilation by torch.compile after the warm-up, unless said otherwise."""

    count: int
    """Steps in which something was compiled."""
    steps: int
    cost_ns: int | None
    """Of all these steps: Dynamo's own time, else their time above the median step that compiled
    nothing; None where neither is known."""
    early_ns: tuple[int, ...] = ()
    """Dynamo's time in each warm-up step that compiled, in order."""
    whole_ns: int = 0
    """Dynamo's time in all steps of the run."""


def compiling(session: Session, steady: Mask) -> Compiling | None:
    """Sum up the steps after the warm-up that compiled; None where no step was recorded."""
    if not session.steps or not steady.any():
        return None
    flags, dur = step_flags(session), session.columns["dur_ns"]
    after = (flags & int(StepFlag.WARMUP | StepFlag.UNFINISHED)) == 0
    # Validation compiles for itself, once.
    validating = (flags & int(StepFlag.VALIDATION)) != 0
    compiled = after & ~validating & ((flags & int(StepFlag.COMPILED)) != 0)
    if not after.any():
        return None
    spans = session.all(OutsideSpan)
    unmarked = [taken_ns for span in spans for taken_ns in span.compiled_ns]
    count = int(compiled.sum()) + len(unmarked)
    plain = steady & ((flags & int(StepFlag.COMPILED)) == 0)
    # A profiled step is longer for another reason; it is taken to have compiled like the others.
    seen = compiled & ((flags & int(SLOWED_BY_MEASURING)) == 0)
    taken = np.concatenate([dur[seen if seen.any() else compiled], np.array(unmarked, np.int64)])
    timed_ns = _timed_ns(session, compiled, count)
    return Compiling(
        count=count,
        steps=int(after.sum()) + sum(span.steps for span in spans),
        cost_ns=_excess_ns(taken, dur[plain], count) if timed_ns is None else timed_ns,
        early_ns=_early_ns(session, ~after & ~validating),
        whole_ns=sum(_noted(session).values()),
    )


def _excess_ns(taken: Int64, plain: Int64, count: int) -> int | None:
    if len(plain) < MIN_STEADY:
        return None
    excess = (taken - median(plain)).clip(min=0)
    return int(excess.sum()) * count // max(1, len(taken))


def _timed_ns(session: Session, compiled: Mask, count: int) -> int | None:
    numbers = session.columns.get("step", np.arange(session.steps))
    others = set(numbers[~compiled].tolist())
    taken = [taken_ns for step, taken_ns in _noted(session).items() if step not in others]
    return None if not taken or len(taken) < count else sum(taken)


def _early_ns(session: Session, early: Mask) -> tuple[int, ...]:
    numbers = session.columns.get("step", np.arange(session.steps))
    steps, noted = numbers[early].tolist(), _noted(session)
    return tuple(noted[step] for step in steps if step in noted)


def _noted(session: Session) -> dict[int, int]:
    """Return Dynamo's time by step, of which there may be several records."""
    taken: Counter[int] = Counter()
    for compiled in session.all(CompileTime):
        taken[compiled.step] += compiled.took_ns
    return taken
