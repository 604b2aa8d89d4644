"""Totals over every step, also where one step in many is marked.

Marked steps hold few or none of a rare thing such as a validation, so some phases are timed in
every step and between epochs, and summed up. The rest of the unmarked steps is taken to be spread
over phases as in the marked ones, so that means are of all steps and add up to the mean step.
"""

from collections import Counter
from dataclasses import dataclass

from lightning_gpuprof.analysis.run.steady import step_flags
from lightning_gpuprof.arrays import Int64, Mask
from lightning_gpuprof.records.phases import EXPERIMENT, Phase
from lightning_gpuprof.records.reader import Session
from lightning_gpuprof.records.schema import UNMARKED_STEPS, OutsideSpan, StepFlag

IN_EVERY_STEP = (Phase.LOGGING, Phase.CHECKPOINT, Phase.VALIDATION, Phase.GARBAGE_COLLECTION)
"""Phases that are timed in steps without marks too."""
_OWN_CALLS = f"{Phase.LOGGING.value}/{EXPERIMENT}"
"""Except the program's own calls of a logger, which only marked steps tell from callbacks'."""
BETWEEN = (Phase.CHECKPOINT, Phase.VALIDATION)
"""Phases that are one thing, in the last step of an epoch or after it."""


def timed_in_every_step(key: str) -> bool:
    """Tell whether a phase or a part, `<phase>/<name>`, is timed in steps without marks too.

    >>> [timed_in_every_step(key) for key in ("logging", "logging/experiment.add_image")]
    [True, False]
    """
    return key.partition("/")[0] in IN_EVERY_STEP and not key.startswith(_OWN_CALLS)


@dataclass(frozen=True)
class EveryStep:
    """The steady steps and those without marks, which come late enough to be steady.

    `phase_ns` are totals, for phases of `BETWEEN` with their time between epochs; `flagged` counts
    steps by flag, in lower case, and spans between epochs.
    """

    steps: int
    dur_ns: int
    phase_ns: dict[Phase, int]
    flagged: dict[str, int]

    @property
    def step_ns(self) -> int:
        """The mean step."""
        return round(self.dur_ns / self.steps)

    def mean_ns(self, phase: Phase) -> int | None:
        """Return a phase's time per step, None where it was not measured."""
        return round(self.phase_ns[phase] / self.steps) if phase in self.phase_ns else None


def every_step(session: Session, steady: Mask) -> EveryStep | None:
    """Sum up all steps; None where none was recorded."""
    if not session.steps or not steady.any():
        return None
    unmarked, between = unmarked_spans(session), between_epochs(session)
    columns = {phase: session.phase_ns(phase) for phase in IN_EVERY_STEP}
    flags = step_flags(session)[steady]
    return EveryStep(
        steps=int(steady.sum()) + sum(span.steps for span in unmarked),
        dur_ns=int(session.columns["dur_ns"][steady].sum()) + sum(span.dur_ns for span in unmarked),
        phase_ns={
            phase: int(column[steady].sum())
            + sum(span.phase_ns.get(phase.value, 0) for span in unmarked)
            + sum(span.phase_ns.get(phase.value, 0) for span in between if phase in BETWEEN)
            for phase, column in columns.items()
            if column is not None
        },
        flagged={
            name: int(((flags & int(flag)) != 0).sum())
            + sum(span.flagged.get(name, 0) for span in (*unmarked, *between))
            for flag in StepFlag
            if (name := str(flag.name).lower())
        },
    )


def parts_in_all(session: Session, steady: Mask, phase: Phase) -> Counter[str]:
    """Return the total of each part of a phase of `BETWEEN`, in all steps and between epochs."""
    found: Counter[str] = Counter()
    for name, column in session.columns.items():
        if name.startswith(f"part/{phase.value}/"):
            found[name.split("/", 2)[2]] += int(column[steady].sum())
    for span in (*unmarked_spans(session), *between_epochs(session)):
        for name, ns in span.part_ns.items():
            if name.startswith(f"{phase.value}/"):
                found[name.split("/", 1)[1]] += ns
    return found


class Spread:
    """Estimates the time of phases in steps without marks from the marked ones.

    An epoch's first steps are no sample of them, for they are always marked.
    """

    def __init__(self, session: Session, steady: Mask) -> None:
        self.session, self.steady = session, steady
        self.spans = spans = unmarked_spans(session)
        self.steps = sum(span.steps for span in spans)
        self.dur_ns = sum(span.dur_ns for span in spans)
        later = steady & ((step_flags(session) & int(StepFlag.EPOCH_START)) == 0)
        self._alike = later if later.any() else steady
        columns = {phase: session.phase_ns(phase) for phase in Phase}
        known = {phase.value for phase in IN_EVERY_STEP}
        rest = sum(
            span.dur_ns - sum(ns for name, ns in span.phase_ns.items() if name in known)
            for span in spans
        )
        marked = sum(
            int(column[self._alike].sum())
            for phase, column in columns.items()
            if column is not None and phase not in IN_EVERY_STEP
        )
        self._own_calls = [
            column
            for name, column in session.columns.items()
            if name.startswith(f"part/{_OWN_CALLS}")
        ]
        marked += sum(int(column[self._alike].sum()) for column in self._own_calls)
        self._per_marked = max(0, rest) / marked if marked else 0.0

    def of(self, key: str, column: Int64) -> int:
        """Return the estimate of a phase or part; 0 if it is timed in those steps too."""
        columns = [] if timed_in_every_step(key) else [column]
        if key == Phase.LOGGING:
            columns = self._own_calls
        return round(sum(int(one[self._alike].sum()) for one in columns) * self._per_marked)


def unmarked_spans(session: Session) -> list[OutsideSpan]:
    """Return the records of steps that were not marked, one for each window that had any."""
    return [span for span in session.all(OutsideSpan) if span.where == UNMARKED_STEPS]


def between_epochs(session: Session) -> list[OutsideSpan]:
    """Return the records of what lies between epochs, and after the last one."""
    return [span for span in session.all(OutsideSpan) if span.where.startswith("epoch")]
