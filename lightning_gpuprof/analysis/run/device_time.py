"""The device's side of the steps: its time per phase, and the state that each step was in."""

from dataclasses import dataclass

import numpy as np

from lightning_gpuprof.analysis.run.steady import Distribution, distribution, mean, median
from lightning_gpuprof.arrays import Int64, Mask
from lightning_gpuprof.records.device_marks import StepState as StepState
from lightning_gpuprof.records.device_marks import device_marks
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.records.reader import Session
from lightning_gpuprof.records.schema import NOT_MEASURED


@dataclass(frozen=True)
class DevicePhase:
    """One phase of the marked steps on both clocks; the device's idle time is included."""

    phase: Phase
    median_ns: int
    mean_ns: int
    host_mean_ns: int | None
    frac: float


@dataclass(frozen=True)
class DevicePart:
    """A named component's share of a phase on the device's clock, over the marked steps."""

    phase: Phase
    name: str
    median_ns: int
    mean_ns: int


@dataclass(frozen=True)
class DeviceTime:
    """Device-side figures over the steady steps whose marks all arrived."""

    marked_steps: int
    dur: Distribution
    phases: dict[Phase, DevicePhase]
    parts: tuple[DevicePart, ...]
    """The longest first."""
    latency_ns: int
    """The launch latency that run-ahead was compared with."""
    state_frac: dict[StepState, float]
    """Share of the marked steps in each state."""
    queued_frac: float = 0.0
    """Share of the marked steps in which the device had work for sure."""
    falls_behind_ns: int = 0
    """Growth of run-ahead per step: a step takes so much longer than on the host's clock."""

    @property
    def state(self) -> StepState:
        """The state that most steps were in."""
        return max(self.state_frac, key=lambda state: self.state_frac[state])

    @property
    def is_behind(self) -> bool:
        """Whether most steps waited for the device, so that its clock is the run's."""
        return self.state is StepState.DEVICE_BOUND


def device_time(session: Session, steady: Mask) -> DeviceTime | None:
    """Describe the device's side of the steps, or return None where there were no marks."""
    marks = device_marks(session.columns, steady) if session.steps else None
    if marks is None:
        return None
    over = distribution(marks.dur)
    assert over is not None
    return DeviceTime(
        marked_steps=len(marks.dur),
        dur=over,
        phases={
            phase: DevicePhase(
                phase=phase,
                median_ns=median(column),
                mean_ns=mean(column),
                host_mean_ns=None if host is None else mean(host[marks.rows]),
                frac=int(column.sum()) / max(1, int(marks.dur.sum())),
            )
            for phase, column in marks.device.items()
            for host in (session.phase_ns(phase),)
        },
        parts=_parts(session, marks.rows),
        latency_ns=marks.latency_ns,
        state_frac=marks.state_frac(),
        queued_frac=marks.queued_frac,
        falls_behind_ns=_falls_behind_ns(session, steady, marks.rows),
    )


def device_dur_ns(session: Session, rows: Mask) -> Int64 | None:
    """Return the length of steps on the device's clock, of those that were marked; None of none."""
    column = session.columns.get("device_dur")
    if column is None:
        return None
    found = column[rows & (column != NOT_MEASURED)]
    return found if len(found) else None


def _falls_behind_ns(session: Session, steady: Mask, marked: Mask) -> int:
    """Return the growth of run-ahead per step, from mark to mark."""
    ahead = session.columns.get(f"run_ahead/{Phase.FORWARD.value}")
    if ahead is None:
        return 0
    rows = np.flatnonzero(marked & (ahead != NOT_MEASURED))
    steps, ahead = session.columns["step"][rows], ahead[rows]
    epochs = session.columns.get("epoch")
    epoch = np.zeros(len(rows), dtype=np.int64) if epochs is None else epochs[rows]
    apart = np.cumsum(~steady)[rows]
    goes_on = (np.diff(epoch) == 0) & (np.diff(apart) == 0)
    grown, over = (int(np.diff(column)[goes_on].sum()) for column in (ahead, steps))
    return round(grown / max(1, over))


def _parts(session: Session, marked: Mask) -> tuple[DevicePart, ...]:
    known, found = {phase.value for phase in Phase}, []
    for key, column in session.columns.items():
        phase, _, name = key.removeprefix("device_part/").partition("/")
        if not key.startswith("device_part/") or phase not in known:
            continue
        ran = np.maximum(0, column[marked])
        found.append(DevicePart(Phase(phase), name, median(ran), mean(ran)))
    return tuple(sorted(found, key=lambda part: -part.mean_ns))
