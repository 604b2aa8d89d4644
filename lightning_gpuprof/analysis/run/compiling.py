"""What torch.compile did: the steps in which it compiled, and why."""

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
from lightning_gpuprof.records.lines import CompileEvent
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
    numbers = session.columns.get("step", np.arange(session.steps))
    after = (flags & int(StepFlag.WARMUP | StepFlag.UNFINISHED)) == 0
    # Validation compiles for itself, once.
    validating = (flags & int(StepFlag.VALIDATION)) != 0
    compiled = (flags & int(StepFlag.COMPILED)) != 0
    if not after.any():
        return None
    noted: Counter[int] = Counter()
    for record in session.all(CompileTime):
        noted[record.step] += record.took_ns
    spans = session.all(OutsideSpan)
    unmarked = [taken_ns for span in spans for taken_ns in span.compiled_ns]
    again = after & ~validating & compiled
    count = int(again.sum()) + len(unmarked)
    others = set(numbers[~again].tolist())
    timed = [taken_ns for step, taken_ns in noted.items() if step not in others]
    cost_ns: int | None = sum(timed)
    if not timed or len(timed) < count:
        # A profiled step is longer for another reason: it counts like the others.
        seen = again & ((flags & int(SLOWED_BY_MEASURING)) == 0)
        taken = np.append(dur[seen if seen.any() else again], unmarked).astype(np.int64)
        cost_ns = _above_median(taken, dur[steady & ~compiled], count)
    early = numbers[~after & ~validating].tolist()
    return Compiling(
        count=count,
        steps=int(after.sum()) + sum(span.steps for span in spans),
        cost_ns=cost_ns,
        early_ns=tuple(noted[step] for step in early if step in noted),
        whole_ns=noted.total(),
    )


def _above_median(taken: Int64, plain: Int64, count: int) -> int | None:
    if len(plain) < MIN_STEADY:
        return None
    return int((taken - median(plain)).clip(min=0).sum()) * count // max(1, len(taken))


@dataclass(frozen=True, kw_only=True)
class CompileResults:
    """Time and events of torch.compile."""

    time: Compiling | None = None
    """None where no step was recorded."""
    events: tuple[CompileEvent, ...] = ()
    """Where torch.compile broke its graph, and what it compiled again."""


def compile_results(session: Session, steady: Mask) -> CompileResults:
    """Collect what is known of torch.compile."""
    return CompileResults(time=compiling(session, steady), events=tuple(session.all(CompileEvent)))
