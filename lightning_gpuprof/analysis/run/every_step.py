"""What is known of every step, also where one step in many is marked.

Of a rare thing the marked steps hold few or none: ten validations in a run with one mark in five
are two, give or take one. What each step is timed for is summed up over all of them instead.
"""

from dataclasses import dataclass

from lightning_gpuprof.analysis.run.steady import step_flags
from lightning_gpuprof.arrays import Mask
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.records.reader import Session
from lightning_gpuprof.records.schema import UNMARKED_STEPS, OutsideSpan, StepFlag

IN_EVERY_STEP = (Phase.LOGGING, Phase.CHECKPOINT, Phase.VALIDATION, Phase.GARBAGE_COLLECTION)
"""Phases that are timed in steps without marks too."""


@dataclass(frozen=True)
class EveryStep:
    """The steady steps and those without marks, which come late enough to be steady.

    Args:
        steps: How many.
        phase_ns: What phases took of them in total, of `IN_EVERY_STEP` those that were measured.
        flagged: How many carry a flag, by its name in lower case.
    """

    steps: int
    phase_ns: dict[Phase, int]
    flagged: dict[str, int]

    def mean_ns(self, phase: Phase) -> int | None:
        """Return a phase's time per step, None where it was not measured."""
        return round(self.phase_ns[phase] / self.steps) if phase in self.phase_ns else None


def every_step(session: Session, steady: Mask) -> EveryStep | None:
    """Sum up all steps; None where none was recorded."""
    if not session.steps or not steady.any():
        return None
    spans = unmarked_spans(session)
    columns = {phase: session.phase_ns(phase) for phase in IN_EVERY_STEP}
    flags = step_flags(session)[steady]
    return EveryStep(
        steps=int(steady.sum()) + sum(span.steps for span in spans),
        phase_ns={
            phase: int(column[steady].sum())
            + sum(span.phase_ns.get(phase.value, 0) for span in spans)
            for phase, column in columns.items()
            if column is not None
        },
        flagged={
            name: int(((flags & int(flag)) != 0).sum())
            + sum(span.flagged.get(name, 0) for span in spans)
            for flag in StepFlag
            if (name := str(flag.name).lower())
        },
    )


def unmarked_spans(session: Session) -> list[OutsideSpan]:
    """Return the records of steps that were not marked, one for each window that had any."""
    return [span for span in session.all(OutsideSpan) if span.where == UNMARKED_STEPS]
