"""The device's side of the steps: time per phase on its own clock, run-ahead, state of each step.

*Run-ahead* is how long after the host passed a boundary the device did. Near the launch latency all
through a step, nothing is queued and the host holds the run back; far above it, the device does. A
fall from far above to near within a step is a wait of the host for the device.
"""

from dataclasses import dataclass
from enum import Enum

import numpy as np

from lightning_gpuprof.analysis.run.steady import Distribution, distribution, mean, median
from lightning_gpuprof.arrays import Int64, Mask
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.records.reader import Session
from lightning_gpuprof.records.schema import NOT_MEASURED

DATA_BOUND_FRAC = 0.10
"""Device idle for want of data during this share of a step makes the step data-bound."""
NEAR_FRAC = 0.02
NEAR_NS = 50_000
"""So near to the launch latency, as a share of the step or in ns, run-ahead is "near" it."""
MAX_LATENCY_NS = 200_000
"""No launch takes longer: where run-ahead never falls below, the device was always behind."""


class StepState(str, Enum):
    """The side that a step waited for."""

    DEVICE_BOUND = "device_bound"
    HOST_BOUND = "host_bound"
    DATA_BOUND = "data_bound"
    SYNC_BOUND = "sync_bound"


@dataclass(frozen=True)
class DevicePhase:
    """One phase of the marked steps on both clocks."""

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
    device = _columns(session, "device/")
    ahead = _columns(session, "run_ahead/")
    if not session.steps or "device_dur" not in session.columns or not ahead:
        return None
    marked = steady & (session.columns["device_dur"] != NOT_MEASURED)
    calibrated = np.logical_or.reduce([column != NOT_MEASURED for column in ahead.values()])
    marked &= calibrated
    if not marked.any():
        return None
    dur = session.columns["device_dur"][marked]
    # A marked step without a phase spent nothing in it.
    device = {phase: np.maximum(0, column[marked]) for phase, column in device.items()}
    ahead = {
        phase: column[marked]
        for phase, column in ahead.items()
        if (column[marked] != NOT_MEASURED).any()
    }
    over = distribution(dur)
    assert over is not None
    latency_ns = _latency(ahead)
    states = _states(dur, device, ahead, latency_ns)
    return DeviceTime(
        marked_steps=int(marked.sum()),
        dur=over,
        phases={
            phase: DevicePhase(
                phase=phase,
                median_ns=median(column),
                mean_ns=mean(column),
                host_mean_ns=_mean(session.phase_ns(phase), marked),
                frac=int(column.sum()) / max(1, int(dur.sum())),
            )
            for phase, column in device.items()
        },
        parts=_parts(session, marked),
        latency_ns=latency_ns,
        state_frac={state: float((states == i).mean()) for i, state in enumerate(StepState)},
        falls_behind_ns=_falls_behind_ns(session, steady, marked),
    )


def device_dur_ns(session: Session, rows: Mask) -> Int64 | None:
    """Return the length of steps on the device's clock, of those that were marked; None of none."""
    column = session.columns.get("device_dur")
    if column is None:
        return None
    found = column[rows & (column != NOT_MEASURED)]
    return found if len(found) else None


def _falls_behind_ns(session: Session, steady: Mask, marked: Mask) -> int:
    """Return the growth of run-ahead per step, from mark to mark.

    Between epochs and in steps that are not steady the device may catch up.
    """
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


def _columns(session: Session, prefix: str) -> dict[Phase, Int64]:
    found = {}
    for phase in Phase:
        if (name := prefix + phase.value) in session.columns:
            found[phase] = session.columns[name]
    return found


def _parts(session: Session, marked: Mask) -> tuple[DevicePart, ...]:
    known, found = {phase.value for phase in Phase}, []
    for key, column in session.columns.items():
        phase, _, name = key.removeprefix("device_part/").partition("/")
        if not key.startswith("device_part/") or phase not in known:
            continue
        ran = np.maximum(0, column[marked])
        found.append(DevicePart(Phase(phase), name, median(ran), mean(ran)))
    return tuple(sorted(found, key=lambda part: -part.mean_ns))


def _mean(host: Int64 | None, marked: Mask) -> int | None:
    return None if host is None else mean(host[marked])


def _latency(ahead: dict[Phase, Int64]) -> int:
    absent = np.iinfo(np.int64).max
    lowest = np.minimum.reduce(
        [np.where(column == NOT_MEASURED, absent, column) for column in ahead.values()]
    )
    return min(MAX_LATENCY_NS, max(0, round(float(np.percentile(lowest, 5)))))


def _states(
    dur: Int64, device: dict[Phase, Int64], ahead: dict[Phase, Int64], latency_ns: int
) -> Int64:
    near = latency_ns + np.maximum(NEAR_NS, NEAR_FRAC * dur)
    order = [phase for phase in Phase if phase in ahead and phase is not Phase.DATA_WAIT]
    names = list(StepState)
    states = np.full(len(dur), names.index(StepState.HOST_BOUND), dtype=np.int64)
    if order:
        behind = np.stack([ahead[phase] > near for phase in order])
        for i in range(1, len(order)):  # a phase that a step did not have changed nothing in it
            behind[i] |= (ahead[order[i]] == NOT_MEASURED) & behind[i - 1]
        states[behind.any(axis=0)] = names.index(StepState.DEVICE_BOUND)
        fell = (behind[:-1] & ~behind[1:]).any(axis=0)
        states[fell] = names.index(StepState.SYNC_BOUND)
    if Phase.DATA_WAIT in device:
        starved = device[Phase.DATA_WAIT] >= DATA_BOUND_FRAC * dur
        states[starved] = names.index(StepState.DATA_BOUND)
    return states
