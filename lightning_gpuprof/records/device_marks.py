"""Device times of steps: how long a step took on the device, and which side waited for the other.

*Run-ahead* is by how much later the device passes a phase's end than the host. If it stays near the
launch latency throughout a step, nothing is queued and the host holds the run back; if it is far
above, the device does. If it falls from far above to near within a step, the host has waited for
the device.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

import numpy as np

from lightning_gpuprof.arrays import Int64, Mask
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.records.schema import NOT_MEASURED

DATA_BOUND_FRAC = 0.10
"""A step in which the device idles for this share because it has no data is data-bound."""
NEAR_FRAC = 0.02
NEAR_NS = 50_000
"""Run-ahead is near the launch latency if it exceeds it by at most this share of the step, or by
so many ns if that is more."""
MAX_LATENCY_NS = 200_000
"""No launch takes longer: if run-ahead never falls below this, the device was always behind."""
MOSTLY_QUEUED_FRAC = 0.9
"""If work was queued for this share of the steps' time, the device was busy."""


class StepState(str, Enum):
    """What a step waited for."""

    DEVICE_BOUND = "device_bound"
    HOST_BOUND = "host_bound"
    DATA_BOUND = "data_bound"
    SYNC_BOUND = "sync_bound"


WAITS = {
    StepState.DEVICE_BOUND: "it is the limit",
    StepState.HOST_BOUND: "it waits for the host",
    StepState.DATA_BOUND: "it waits for data",
    StepState.SYNC_BOUND: "the host stops to wait for it",
}
"""Who waits in a step of each state; "it" is the GPU."""


def limiting(state: StepState, busy_frac: float | None) -> StepState:
    """Return what limits steps that mostly were in a state, given how busy the device was.

    A host that waits for a device which works all the time holds nothing up.

    >>> limiting(StepState.SYNC_BOUND, 0.98).value, limiting(StepState.SYNC_BOUND, None).value
    ('device_bound', 'sync_bound')
    """
    busy = busy_frac is not None and busy_frac >= MOSTLY_QUEUED_FRAC
    return StepState.DEVICE_BOUND if state is StepState.SYNC_BOUND and busy else state


def gpu_line(
    busy_frac: float | None, state: StepState | None, doing: str = "", *, device: str = "GPU"
) -> str:
    """Return a line on how busy the device is, what it does, and which side waits.

    >>> gpu_line(0.43, StepState.HOST_BOUND), gpu_line(None, StepState.DATA_BOUND)
    ('GPU 43% busy: it waits for the host', 'GPU: it waits for data')
    """
    busy = "" if busy_frac is None else f" {100 * busy_frac:.0f}% busy{doing}"
    return f"{device}{busy}" + (f": {WAITS[state]}" if state is not None else "")


@dataclass(frozen=True)
class DeviceMarks:
    """The steps of a session that have all their device marks.

    `rows` selects them among all steps; the columns hold only them. A phase that a step did not
    have took 0 ns on the device, and its run-ahead is `NOT_MEASURED`.
    """

    rows: Mask
    dur: Int64
    device: dict[Phase, Int64]
    ahead: dict[Phase, Int64]

    @property
    def latency_ns(self) -> int:
        """The launch latency that run-ahead is compared with."""
        absent = np.iinfo(np.int64).max
        lowest = np.minimum.reduce(
            [np.where(column == NOT_MEASURED, absent, column) for column in self.ahead.values()]
        )
        return min(MAX_LATENCY_NS, max(0, round(float(np.percentile(lowest, 5)))))

    @property
    def queued_frac(self) -> float:
        """The least share of these steps' time in which the device had work queued.

        From when the host passes a phase's end until the device does, the device has work.
        """
        queued = sum(
            int(np.minimum(column, np.maximum(0, self.ahead[phase] - self.latency_ns)).sum())
            for phase, column in self.device.items()
            if phase in self.ahead
        )
        return min(1.0, queued / max(1, int(self.dur.sum())))

    def state_frac(self) -> dict[StepState, float]:
        """Return the share of these steps by state."""
        states = _states(self)
        return {state: float((states == i).mean()) for i, state in enumerate(StepState)}

    def line(self) -> str:
        """Return a line on the device's state, with its busy share if it nearly always had work."""
        shares, queued = self.state_frac(), self.queued_frac
        state = limiting(max(shares, key=lambda state: shares[state]), queued)
        return gpu_line(queued if queued >= MOSTLY_QUEUED_FRAC else None, state)


def device_marks(columns: Mapping[str, Int64], chosen: Mask | None = None) -> DeviceMarks | None:
    """Return the device marks of the chosen steps; None if none of these is marked."""
    device, ahead = _columns(columns, "device/"), _columns(columns, "run_ahead/")
    if "device_dur" not in columns or not ahead:
        return None
    rows = columns["device_dur"] != NOT_MEASURED
    rows &= np.logical_or.reduce([column != NOT_MEASURED for column in ahead.values()])
    rows = rows if chosen is None else rows & chosen
    if not rows.any():
        return None
    chosen_ahead = {phase: column[rows] for phase, column in ahead.items()}
    return DeviceMarks(
        rows=rows,
        dur=columns["device_dur"][rows],
        # A marked step that did not have a phase spent no time in it.
        device={phase: np.maximum(0, column[rows]) for phase, column in device.items()},
        ahead={
            phase: column
            for phase, column in chosen_ahead.items()
            if (column != NOT_MEASURED).any()
        },
    )


def _columns(columns: Mapping[str, Int64], prefix: str) -> dict[Phase, Int64]:
    by_phase = {phase: columns.get(prefix + phase.value) for phase in Phase}
    return {phase: column for phase, column in by_phase.items() if column is not None}


def _states(marks: DeviceMarks) -> Int64:
    dur, device, ahead = marks.dur, marks.device, marks.ahead
    near = marks.latency_ns + np.maximum(NEAR_NS, NEAR_FRAC * dur)
    order = [phase for phase in Phase if phase in ahead and phase is not Phase.DATA_WAIT]
    names = list(StepState)
    states = np.full(len(dur), names.index(StepState.HOST_BOUND), dtype=np.int64)
    if order:
        behind = np.stack([ahead[phase] > near for phase in order])
        # A phase that a step did not have leaves run-ahead as it was.
        for i in range(1, len(order)):
            behind[i] |= (ahead[order[i]] == NOT_MEASURED) & behind[i - 1]
        states[behind.any(axis=0)] = names.index(StepState.DEVICE_BOUND)
        fell = (behind[:-1] & ~behind[1:]).any(axis=0)
        states[fell] = names.index(StepState.SYNC_BOUND)
    if Phase.DATA_WAIT in device:
        starved = device[Phase.DATA_WAIT] >= DATA_BOUND_FRAC * dur
        states[starved] = names.index(StepState.DATA_BOUND)
    return states
