"""Totals over all steps, also if only every n-th step is marked.

Rare phases such as validation may occur in no marked step. They are timed in every step and between
epochs, and summed up. The rest of the time of unmarked steps is divided among the other phases in
the proportions of the marked steps, so that the means of all phases add up to the mean step.
"""

from collections import Counter
from dataclasses import dataclass

from lightning_gpuprof.analysis.run.steady import step_flags
from lightning_gpuprof.arrays import Int64, Mask
from lightning_gpuprof.records.phases import EXPERIMENT, Phase
from lightning_gpuprof.records.reader import Session
from lightning_gpuprof.records.schema import UNMARKED_STEPS, OutsideSpan, StepFlag

IN_EVERY_STEP = (Phase.LOGGING, Phase.CHECKPOINT, Phase.VALIDATION, Phase.GARBAGE_COLLECTION)
"""Phases that are timed in unmarked steps too."""
_OWN_CALLS = f"{Phase.LOGGING.value}/{EXPERIMENT}"
"""Except the program's own calls of a logger: only in marked steps are they distinguished from
those of callbacks."""
BETWEEN = (Phase.CHECKPOINT, Phase.VALIDATION)
"""Phases of which the time between epochs counts as if it lay in the epoch's last step."""


def timed_in_every_step(key: str) -> bool:
    """Return whether a phase, or a part `<phase>/<name>`, is timed in unmarked steps too.

    >>> [timed_in_every_step(key) for key in ("logging", "logging/experiment.add_image")]
    [True, False]
    """
    return key.partition("/")[0] in IN_EVERY_STEP and not key.startswith(_OWN_CALLS)


@dataclass(frozen=True)
class EveryStep:
    """The steady steps and the unmarked ones, which come late enough to be steady.

    Args:
        phase_ns: Total time of the phases in `IN_EVERY_STEP`; for those in `BETWEEN` it includes
            their time between epochs.
        flagged: Number of steps, and of spans between epochs, by the flag's name in lower case.
    """

    steps: int
    dur_ns: int
    phase_ns: dict[Phase, int]
    flagged: dict[str, int]

    @property
    def step_ns(self) -> int:
        """The mean duration of a step."""
        return round(self.dur_ns / self.steps)

    def mean_ns(self, phase: Phase) -> int | None:
        """Return a phase's mean time per step; None if it was not measured."""
        return round(self.phase_ns[phase] / self.steps) if phase in self.phase_ns else None


def every_step(session: Session, steady: Mask) -> EveryStep | None:
    """Sum up all steps; None if none was recorded."""
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
    """Return the total time of the parts of a phase of `BETWEEN`, in steps and between epochs."""
    totals: Counter[str] = Counter()
    for name, column in session.columns.items():
        if name.startswith(f"part/{phase.value}/"):
            totals[name.split("/", 2)[2]] += int(column[steady].sum())
    for span in (*unmarked_spans(session), *between_epochs(session)):
        for name, ns in span.part_ns.items():
            if name.startswith(f"{phase.value}/"):
                totals[name.split("/", 1)[1]] += ns
    return totals


class Spread:
    """Estimates how the time of unmarked steps divides into phases, from the marked steps.

    The first step of an epoch is always marked, and therefore no sample of the unmarked ones.
    """

    def __init__(self, session: Session, steady: Mask) -> None:
        self.session, self.steady = session, steady
        self.spans = spans = unmarked_spans(session)
        self.steps = sum(span.steps for span in spans)
        self.dur_ns = sum(span.dur_ns for span in spans)
        later = steady & ((step_flags(session) & int(StepFlag.EPOCH_START)) == 0)
        self._sample = later if later.any() else steady
        columns = {phase: session.phase_ns(phase) for phase in Phase}
        timed = {phase.value for phase in IN_EVERY_STEP}
        rest_ns = sum(
            span.dur_ns - sum(ns for name, ns in span.phase_ns.items() if name in timed)
            for span in spans
        )
        sample_ns = sum(
            int(column[self._sample].sum())
            for phase, column in columns.items()
            if column is not None and phase not in IN_EVERY_STEP
        )
        self._own_calls = [
            column
            for name, column in session.columns.items()
            if name.startswith(f"part/{_OWN_CALLS}")
        ]
        sample_ns += sum(int(column[self._sample].sum()) for column in self._own_calls)
        self._per_sampled_ns = max(0, rest_ns) / sample_ns if sample_ns else 0.0

    def of(self, key: str, column: Int64) -> int:
        """Return a phase's or part's estimated time in unmarked steps; 0 if it is timed there."""
        columns = [] if timed_in_every_step(key) else [column]
        if key == Phase.LOGGING:
            columns = self._own_calls
        sample_ns = sum(int(sampled[self._sample].sum()) for sampled in columns)
        return round(sample_ns * self._per_sampled_ns)


def unmarked_spans(session: Session) -> list[OutsideSpan]:
    """Return the records of unmarked steps: one for every window that had any."""
    return [span for span in session.all(OutsideSpan) if span.where == UNMARKED_STEPS]


def between_epochs(session: Session) -> list[OutsideSpan]:
    """Return the records of the time between epochs, and after the last epoch."""
    return [span for span in session.all(OutsideSpan) if span.where.startswith("epoch")]
