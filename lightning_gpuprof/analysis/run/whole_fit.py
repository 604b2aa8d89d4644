"""The time of a fit per step by kinds of time, including the time between epochs."""

from dataclasses import dataclass

import numpy as np

from lightning_gpuprof.analysis.run.compiling import compile_times
from lightning_gpuprof.analysis.run.every_step import between_epochs, untimed_spans
from lightning_gpuprof.analysis.run.step_kinds import PLAIN, step_kinds
from lightning_gpuprof.arrays import Int64, Mask
from lightning_gpuprof.records.phases import OWN_CALLBACKS, Phase
from lightning_gpuprof.records.reader import Session
from lightning_gpuprof.records.schema import OutsideSpan


@dataclass(frozen=True)
class Kind:
    """Steps of a kind, or spans of a kind between epochs."""

    name: str
    """`PLAIN`, a flag's name in lower case, or where the spans lie."""
    values_ns: Int64
    """The duration of every step or span."""
    per_step: float
    """How many of them there are per step of the fit."""
    between: bool = False
    """Whether they lie between epochs."""


@dataclass(frozen=True)
class WholeFit:
    """The time of a fit by kind, without its setup, its warm-up and this package's own work.

    `between_ns` is the time between epochs per step, by phase. `compiling_ns` is the time of
    torch.compile per step, from the first step on. It is in none of the kinds.
    """

    kinds: tuple[Kind, ...]
    between_ns: dict[str, float]
    compiling_ns: float = 0.0

    @property
    def steps(self) -> "WholeFit":
        """The same without the time between epochs, and without that of torch.compile."""
        return WholeFit(tuple(kind for kind in self.kinds if not kind.between), {})

    @property
    def step_ns(self) -> float:
        """The mean step, including the time between epochs and that of torch.compile."""
        kinds_ns = (kind.per_step * float(kind.values_ns.mean()) for kind in self.kinds)
        return self.compiling_ns + sum(kinds_ns)


def whole_fit(session: Session, steady: Mask) -> WholeFit | None:
    """Divide a fit's time into kinds; None if no step was recorded."""
    if not session.steps or not steady.any():
        return None
    compiling = compile_times(session)
    dur_ns = (session.columns["dur_ns"] - compiling.step_ns)[steady]
    untimed, spans = untimed_spans(session), between_epochs(session)
    untimed_steps = sum(span.steps for span in untimed)
    ran = session.steps + untimed_steps
    own = {kind.name: kind for kind in step_kinds(session, steady, untimed)}
    kinds = [
        Kind(name, dur_ns[kind.chosen], kind.per_step)
        for name, kind in own.items()
        if name != PLAIN
    ]
    if PLAIN in own and (plain := dur_ns[own[PLAIN].chosen]).any():
        # Most untimed steps are plain, so plain steps stand for the rest of all steps' time.
        whole_ns = int(dur_ns.sum()) + sum(span.dur_ns for span in untimed)
        whole_ns -= compiling.untimed_ns
        rest_ns = whole_ns / (len(dur_ns) + untimed_steps) - WholeFit(tuple(kinds), {}).step_ns
        kinds.insert(0, Kind(PLAIN, plain, max(0.0, rest_ns) / float(plain.mean())))
    for where in dict.fromkeys(span.where for span in spans):
        durations = [span.dur_ns - _own_ns(span) for span in spans if span.where == where]
        kinds.append(Kind(where, np.array(durations), len(durations) / ran, between=True))
    between = {
        phase.value: sum(span.phase_ns.get(phase.value, 0) for span in spans) / ran
        for phase in Phase
    }
    between[Phase.CALLBACKS.value] -= sum(map(_own_ns, spans)) / ran
    between = {phase: ns for phase, ns in between.items() if ns > 0}
    return WholeFit(tuple(kinds), between, compiling.total_ns / ran)


def _own_ns(span: OutsideSpan) -> int:
    """Return the time of this package's own callbacks in a span."""
    return sum(span.part_ns.get(f"{Phase.CALLBACKS.value}/{name}", 0) for name in OWN_CALLBACKS)
