"""Steps that hold something special: a validation, a checkpoint, a compilation."""

from dataclasses import dataclass

import numpy as np

from lightning_gpuprof.analysis.distribution import Int64, median
from lightning_gpuprof.analysis.steady import MIN_STEADY, SLOWED_BY_MEASURING, Mask, step_flags
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.records.reader import Session
from lightning_gpuprof.records.schema import COMPILE_NOTE, Note, StepFlag


@dataclass(frozen=True)
class Compiling:
    """What torch.compile did after the warm-up."""

    count: int
    """Steps in which something was compiled."""
    steps: int
    excess_ns: int | None
    """Above the median step that compiled nothing, all such steps together; None where there are
    too few to compare with."""
    timed_ns: int | None
    """What dynamo itself took in these steps; None where it did not say."""

    @property
    def costs_per_step_ns(self) -> tuple[int, ...]:
        """What is known of the cost, spread over all steps after the warm-up."""
        known = (self.excess_ns, self.timed_ns)
        return tuple(cost // self.steps for cost in known if cost is not None)


def compiling(session: Session, steady: Mask) -> Compiling | None:
    """Sum up the steps after the warm-up that compiled; None where no step was recorded."""
    if not session.steps or not steady.any():
        return None
    flags, dur = step_flags(session), session.columns["dur_ns"]
    after = (flags & int(StepFlag.WARMUP | StepFlag.UNFINISHED)) == 0
    # Validation compiles for itself, once: that is no compiling anew.
    validating = (flags & int(StepFlag.VALIDATION)) != 0
    compiled = after & ~validating & ((flags & int(StepFlag.COMPILED)) != 0)
    if not after.any():
        return None
    return Compiling(
        count=int(compiled.sum()),
        steps=int(after.sum()),
        excess_ns=_excess_ns(dur, flags, compiled, steady),
        timed_ns=_timed_ns(session, compiled),
    )


def _excess_ns(dur: Int64, flags: Int64, compiled: Mask, steady: Mask) -> int | None:
    plain = steady & ((flags & int(StepFlag.COMPILED)) == 0)
    if int(plain.sum()) < MIN_STEADY:
        return None
    # A profiled step is longer for another reason; it is taken to have compiled like the others.
    seen = compiled & ((flags & int(SLOWED_BY_MEASURING)) == 0)
    seen = seen if seen.any() else compiled
    excess = (dur[seen] - median(dur[plain])).clip(min=0)
    return int(excess.sum()) * int(compiled.sum()) // max(1, int(seen.sum()))


def _timed_ns(session: Session, compiled: Mask) -> int | None:
    taken = {n.step: n.value for n in session.all(Note) if n.name == COMPILE_NOTE}
    numbers = session.columns.get("step", np.arange(session.steps))[compiled]
    known = [taken[step] for step in numbers.tolist() if step in taken]
    if not known or len(known) < len(numbers):
        return None
    return sum(value for value in known if isinstance(value, int))


def usual_save_ns(session: Session, steady: Mask) -> int | None:
    """Return what a checkpoint takes at the median; None where no steady step holds one."""
    saving = session.phase_ns(Phase.CHECKPOINT)
    if saving is None:
        return None
    holds = steady & ((step_flags(session) & int(StepFlag.CHECKPOINT)) != 0)
    return median(saving[holds]) if holds.any() else None


def flagged_steps(session: Session, steady: Mask) -> dict[str, int]:
    """Return how many of the steady steps carry each flag, by its name in lower case."""
    if not session.steps:
        return {}
    flags = step_flags(session)[steady]
    return {str(flag.name).lower(): int(((flags & int(flag)) != 0).sum()) for flag in StepFlag}
