"""The device's side of the steps: its time per phase, and what the steps waited for."""

from dataclasses import dataclass

import numpy as np

from lightning_gpuprof.analysis.run.steady import Distribution, distribution, mean, median
from lightning_gpuprof.arrays import Int64, Mask
from lightning_gpuprof.records.device_marks import StepState, device_marks
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.records.reader import Session
from lightning_gpuprof.records.schema import NOT_MEASURED


@dataclass(frozen=True)
class DevicePhase:
    """A phase of the marked steps on the device's clock, including idle time."""

    phase: Phase
    median_ns: int
    mean_ns: int
    host_mean_ns: int | None
    """The mean of the same steps on the host's clock; None if not measured."""
    frac: float
    """Share of the marked steps' time on the device."""


@dataclass(frozen=True)
class DevicePart:
    """The time of a named component in a phase of the marked steps, on the device's clock."""

    phase: Phase
    name: str
    median_ns: int
    mean_ns: int


@dataclass(frozen=True)
class DeviceTime:
    """Figures of the device over the marked steps: steady steps that have all their marks."""

    marked_steps: int
    dur: Distribution
    """Duration of a step on the device's clock."""
    phases: dict[Phase, DevicePhase]
    parts: tuple[DevicePart, ...]
    """The longest first."""
    latency_ns: int
    """The launch latency that run-ahead was compared with."""
    state_frac: dict[StepState, float]
    """Share of the marked steps by state."""
    queued_frac: float = 0.0
    """The least share of the marked steps' time in which the device had work."""
    falls_behind_ns: int = 0
    """Growth of run-ahead per step, by which a step takes longer on the device's clock than on the
    host's."""

    @property
    def state(self) -> StepState:
        """The state that most steps were in."""
        return max(self.state_frac, key=lambda state: self.state_frac[state])

    @property
    def is_behind(self) -> bool:
        """Whether most steps waited for the device, so that its clock gives a step's duration."""
        return self.state is StepState.DEVICE_BOUND


def device_time(session: Session, steady: Mask) -> DeviceTime | None:
    """Describe the device's side of the steady steps; None if none of them is marked."""
    marks = device_marks(session.columns, steady) if session.steps else None
    if marks is None:
        return None
    durations = distribution(marks.dur)
    assert durations is not None
    return DeviceTime(
        marked_steps=len(marks.dur),
        dur=durations,
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
    """Return the durations of the marked steps on the device's clock; None if none is marked."""
    column = session.columns.get("device_dur")
    if column is None:
        return None
    durations = column[rows & (column != NOT_MEASURED)]
    return durations if len(durations) else None


def _falls_behind_ns(session: Session, steady: Mask, marked: Mask) -> int:
    """Return the growth of run-ahead per step, over stretches of steady steps within an epoch."""
    ahead = session.columns.get(f"run_ahead/{Phase.FORWARD.value}")
    if ahead is None:
        return 0
    rows = np.flatnonzero(marked & (ahead != NOT_MEASURED))
    steps, ahead = session.columns["step"][rows], ahead[rows]
    epochs = session.columns.get("epoch")
    epoch = np.zeros(len(rows), dtype=np.int64) if epochs is None else epochs[rows]
    unsteady_before = np.cumsum(~steady)[rows]
    undisturbed = (np.diff(epoch) == 0) & (np.diff(unsteady_before) == 0)
    grown_ns, over_steps = (int(np.diff(column)[undisturbed].sum()) for column in (ahead, steps))
    return round(grown_ns / max(1, over_steps))


def _parts(session: Session, marked: Mask) -> tuple[DevicePart, ...]:
    phases, parts = {phase.value for phase in Phase}, []
    for key, column in session.columns.items():
        phase, _, name = key.removeprefix("device_part/").partition("/")
        if not key.startswith("device_part/") or phase not in phases:
            continue
        part_ns = np.maximum(0, column[marked])  # a component that did not run took no time
        parts.append(DevicePart(Phase(phase), name, median(part_ns), mean(part_ns)))
    return tuple(sorted(parts, key=lambda part: -part.mean_ns))
