"""The steps in which torch.compile compiled, what that cost, and why it compiled again."""

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
    """Compilation by torch.compile; after the warm-up, unless a field says otherwise."""

    count: int
    """Steps in which something was compiled."""
    steps: int
    """All steps after the warm-up."""
    cost_ns: int | None
    """What compiling cost in all its steps: the time that Dynamo measured, or else their time above
    the median step without compilation; None if neither is known."""
    early_ns: tuple[int, ...] = ()
    """Dynamo's time in the warm-up steps that compiled, in step order."""
    whole_ns: int = 0
    """Dynamo's time in all steps of the run."""


def compiling(session: Session, steady: Mask) -> Compiling | None:
    """Sum up the steps after the warm-up that compiled; None if no step was recorded."""
    if not session.steps or not steady.any():
        return None
    flags, dur = step_flags(session), session.columns["dur_ns"]
    numbers = session.columns.get("step", np.arange(session.steps))
    after = (flags & int(StepFlag.WARMUP | StepFlag.UNFINISHED)) == 0
    # Validation compiles its own graph once, which is not a recompilation.
    validating = (flags & int(StepFlag.VALIDATION)) != 0
    compiled = (flags & int(StepFlag.COMPILED)) != 0
    if not after.any():
        return None
    dynamo_ns: Counter[int] = Counter()
    for record in session.all(CompileTime):
        dynamo_ns[record.step] += record.took_ns
    spans = session.all(OutsideSpan)
    untimed = [step_ns for span in spans for step_ns in span.compiled_ns]
    again = after & ~validating & compiled
    count = int(again.sum()) + len(untimed)
    others = set(numbers[~again].tolist())
    timed = [took_ns for step, took_ns in dynamo_ns.items() if step not in others]
    cost_ns: int | None = sum(timed)
    if not timed or len(timed) < count:
        # The profiler slows a step down too, so such steps are assumed to cost as the others do.
        undisturbed = again & ((flags & int(SLOWED_BY_MEASURING)) == 0)
        measured = undisturbed if undisturbed.any() else again
        step_ns = np.append(dur[measured], untimed).astype(np.int64)
        cost_ns = _above_median(step_ns, dur[steady & ~compiled], count)
    early = numbers[~after & ~validating].tolist()
    return Compiling(
        count=count,
        steps=int(after.sum()) + sum(span.steps for span in spans),
        cost_ns=cost_ns,
        early_ns=tuple(dynamo_ns[step] for step in early if step in dynamo_ns),
        whole_ns=dynamo_ns.total(),
    )


def _above_median(step_ns: Int64, plain_ns: Int64, count: int) -> int | None:
    """Return by how much `count` steps like `step_ns` exceed the median plain step in all."""
    if len(plain_ns) < MIN_STEADY:
        return None
    return int((step_ns - median(plain_ns)).clip(min=0).sum()) * count // max(1, len(step_ns))


@dataclass(frozen=True, kw_only=True)
class CompileResults:
    """Time and events of torch.compile."""

    time: Compiling | None = None
    """None if no step was recorded."""
    events: tuple[CompileEvent, ...] = ()
    """Lines at which torch.compile broke its graph, and functions that it compiled again."""


def compile_results(session: Session, steady: Mask) -> CompileResults:
    """Collect the time and the events of torch.compile."""
    return CompileResults(time=compiling(session, steady), events=tuple(session.all(CompileEvent)))
