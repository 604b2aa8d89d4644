"""What a fit takes per step with its epochs' starts and ends in it, by kinds of time."""

from dataclasses import dataclass

import numpy as np

from lightning_gpuprof.analysis.run.every_step import between_epochs, unmarked_spans
from lightning_gpuprof.analysis.run.steady import step_flags
from lightning_gpuprof.arrays import Int64, Mask
from lightning_gpuprof.records.phases import OWN_CALLBACKS, Phase
from lightning_gpuprof.records.reader import Session
from lightning_gpuprof.records.schema import OutsideSpan, StepFlag

PLAIN = "plain"
RARE = (StepFlag.EPOCH_START, StepFlag.VALIDATION, StepFlag.CHECKPOINT)
"""Steps with these come by a plan, not by chance."""


@dataclass(frozen=True)
class Kind:
    """Steps, or spans between epochs, that are alike: how long each took, and how many per step."""

    name: str
    values_ns: Int64
    per_step: float
    between: bool = False


@dataclass(frozen=True)
class WholeFit:
    """A fit without its setup, its warm-up and our own work: of each kind there are any number.

    `between_ns` is the time between epochs per step, by phase.
    """

    kinds: tuple[Kind, ...]
    between_ns: dict[str, float]

    @property
    def steps(self) -> "WholeFit":
        """The same without what is between epochs."""
        return WholeFit(tuple(one for one in self.kinds if not one.between), {})

    @property
    def step_ns(self) -> float:
        """The mean step, with what is between epochs in it."""
        return sum(one.per_step * float(one.values_ns.mean()) for one in self.kinds)


def whole_fit(session: Session, steady: Mask) -> WholeFit | None:
    """Sort a fit's time into kinds; None where no step was recorded."""
    if not session.steps or not steady.any():
        return None
    flags, dur_ns = step_flags(session)[steady], session.columns["dur_ns"][steady]
    name = np.full(len(flags), PLAIN, dtype=object)
    for flag in RARE:
        name[(flags & int(flag)) != 0] = str(flag.name).lower()
    unmarked, spans = unmarked_spans(session), between_epochs(session)
    more = sum(span.steps for span in unmarked)
    kinds: list[Kind] = []
    ran = session.steps + more
    for one in (str(flag.name).lower() for flag in RARE):
        values = dur_ns[name == one]
        if len(values):
            count = len(values) + sum(span.flagged.get(one, 0) for span in unmarked)
            kinds.append(Kind(one, values, count / (len(flags) + more)))
    if (plain := dur_ns[name == PLAIN]).any():
        # What is rest of all steps' time, as those that were not marked are among them.
        whole_ns = int(dur_ns.sum()) + sum(span.dur_ns for span in unmarked)
        rest_ns = whole_ns / (len(flags) + more) - WholeFit(tuple(kinds), {}).step_ns
        kinds.insert(0, Kind(PLAIN, plain, max(0.0, rest_ns) / float(plain.mean())))
    for where in dict.fromkeys(span.where for span in spans):
        taken = [span.dur_ns - _own_ns(span) for span in spans if span.where == where]
        kinds.append(Kind(where, np.array(taken), len(taken) / ran, between=True))
    between = {
        phase.value: sum(span.phase_ns.get(phase.value, 0) for span in spans) / ran
        for phase in Phase
    }
    between[Phase.CALLBACKS.value] -= sum(map(_own_ns, spans)) / ran
    return WholeFit(tuple(kinds), {phase: ns for phase, ns in between.items() if ns > 0})


def _own_ns(span: OutsideSpan) -> int:
    return sum(span.part_ns.get(f"{Phase.CALLBACKS.value}/{name}", 0) for name in OWN_CALLBACKS)
