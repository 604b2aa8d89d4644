"""Steps that hold something special: a validation, a checkpoint, a compilation."""

from dataclasses import dataclass

import numpy as np

from lightning_gpuprof.analysis.distribution import median
from lightning_gpuprof.analysis.steady import Mask, step_flags
from lightning_gpuprof.records.reader import Session
from lightning_gpuprof.records.schema import OutsideSpan, StepFlag


@dataclass(frozen=True)
class Compiling:
    """What torch.compile did after the warm-up."""

    count: int
    """Steps in which something was compiled."""
    steps: int
    excess_ns: int
    """Above the median step, all such steps together."""

    @property
    def excess_per_step_ns(self) -> int:
        """The same, spread over all steps after the warm-up."""
        return self.excess_ns // self.steps


def compiling(session: Session, steady: Mask) -> Compiling | None:
    """Sum up the steps after the warm-up that compiled; None where no step was recorded.

    Those that were not marked are known, too.
    """
    if not session.steps or not steady.any():
        return None
    flags, dur = step_flags(session), session.columns["dur_ns"]
    after = (flags & int(StepFlag.WARMUP | StepFlag.UNFINISHED)) == 0
    # Validation compiles for itself, once: that is no compiling anew.
    validating = (flags & int(StepFlag.VALIDATION)) != 0
    compiled = after & ~validating & ((flags & int(StepFlag.COMPILED)) != 0)
    if not after.any():
        return None
    spans = session.all(OutsideSpan)
    unmarked = [taken_ns for span in spans for taken_ns in span.compiled_ns]
    taken = np.concatenate([dur[compiled], np.array(unmarked, dtype=np.int64)])
    return Compiling(
        count=len(taken),
        steps=int(after.sum()) + sum(span.steps for span in spans),
        excess_ns=int((taken - median(dur[steady])).clip(min=0).sum()),
    )


def flagged_steps(session: Session, steady: Mask) -> dict[str, int]:
    """Return how many of the steady steps carry each flag, by its name in lower case."""
    if not session.steps:
        return {}
    flags = step_flags(session)[steady]
    return {str(flag.name).lower(): int(((flags & int(flag)) != 0).sum()) for flag in StepFlag}
