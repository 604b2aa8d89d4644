"""Totals over all steps, also if only every n-th step is timed by phase.

Rare phases such as validation may occur in no timed step. They are measured in every step and
between epochs, and summed up. The rest of the untimed steps is divided among the other phases in
the proportions of the timed steps, so that the means of all phases add up to the mean step.
"""

from collections import Counter
from dataclasses import dataclass
from functools import cached_property

from lightning_gpuprof.analysis.run.steady import step_flags
from lightning_gpuprof.analysis.run.step_kinds import StepKind, step_kinds
from lightning_gpuprof.arrays import Int64, Mask
from lightning_gpuprof.records.phases import EXPERIMENT, Phase
from lightning_gpuprof.records.reader import Session
from lightning_gpuprof.records.schema import UNTIMED_STEPS, OutsideSpan, StepFlag

IN_EVERY_STEP = (Phase.LOGGING, Phase.CHECKPOINT, Phase.VALIDATION, Phase.GARBAGE_COLLECTION)
"""Phases that are measured in every step, also in untimed ones."""
_OWN_CALLS = f"{Phase.LOGGING.value}/{EXPERIMENT}"
"""The exception: the program's own calls of a logger. Only in timed steps are they distinguished
from calls by callbacks."""
BETWEEN = (Phase.CHECKPOINT, Phase.VALIDATION)
"""Phases whose time between epochs counts as if it lay in the epoch's last step."""


def timed_in_every_step(key: str) -> bool:
    """Return whether a phase, or a part `<phase>/<name>`, is measured in every step.

    >>> [timed_in_every_step(key) for key in ("logging", "logging/experiment.add_image")]
    [True, False]
    """
    return key.partition("/")[0] in IN_EVERY_STEP and not key.startswith(_OWN_CALLS)


@dataclass(frozen=True)
class EveryStep:
    """The steady timed steps, and all untimed steps, which come late enough to be steady.

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
    untimed, between = untimed_spans(session), between_epochs(session)
    columns = {phase: session.phase_ns(phase) for phase in IN_EVERY_STEP}
    flags = step_flags(session)[steady]
    return EveryStep(
        steps=int(steady.sum()) + sum(span.steps for span in untimed),
        dur_ns=int(session.columns["dur_ns"][steady].sum()) + sum(span.dur_ns for span in untimed),
        phase_ns={
            phase: int(column[steady].sum())
            + sum(span.phase_ns.get(phase.value, 0) for span in untimed)
            + sum(span.phase_ns.get(phase.value, 0) for span in between if phase in BETWEEN)
            for phase, column in columns.items()
            if column is not None
        },
        flagged={
            name: int(((flags & int(flag)) != 0).sum())
            + sum(span.flagged.get(name, 0) for span in (*untimed, *between))
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
    for span in (*untimed_spans(session), *between_epochs(session)):
        for name, ns in span.part_ns.items():
            if name.startswith(f"{phase.value}/"):
                totals[name.split("/", 1)[1]] += ns
    return totals


class UntimedPhases:
    """Estimates the phases of the untimed steps by the proportions of the timed steps.

    The first step of an epoch is always timed, so it is not a sample of the untimed steps.
    """

    def __init__(self, session: Session, steady: Mask) -> None:
        self.session, self.steady = session, steady
        self.spans = spans = untimed_spans(session)
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

    @cached_property
    def kinds(self) -> tuple[StepKind, ...]:
        """The kinds of the steady steps, timed by phase or not."""
        return step_kinds(self.session, self.steady, self.spans)

    def estimated_ns(self, key: str, column: Int64) -> int:
        """Return a phase's or part's estimated time in untimed steps; 0 if it is measured."""
        columns = [] if timed_in_every_step(key) else [column]
        if key == Phase.LOGGING:
            columns = self._own_calls
        sample_ns = sum(int(sampled[self._sample].sum()) for sampled in columns)
        return round(sample_ns * self._per_sampled_ns)


def untimed_spans(session: Session) -> list[OutsideSpan]:
    """Return the records of untimed steps: one for every window that had any."""
    return [span for span in session.all(OutsideSpan) if span.where == UNTIMED_STEPS]


def between_epochs(session: Session) -> list[OutsideSpan]:
    """Return the records of the time between epochs, and after the last epoch."""
    return [span for span in session.all(OutsideSpan) if span.where.startswith("epoch")]
