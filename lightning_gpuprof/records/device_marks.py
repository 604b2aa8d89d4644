"""The marks of steps on the device: how long each took there, and which side waited for the other.

*Run-ahead* is how long after the host passed a boundary the device did. Near the launch latency all
through a step, nothing is queued and the host holds the run back; far above it, the device does. A
fall from far above to near within a step is a wait of the host for the device.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

import numpy as np

from lightning_gpuprof.arrays import Int64, Mask
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.records.schema import NOT_MEASURED

DATA_BOUND_FRAC = 0.10
"""Device idle for want of data during this share of a step makes the step data-bound."""
NEAR_FRAC = 0.02
NEAR_NS = 50_000
"""So near to the launch latency, as a share of the step or in ns, run-ahead is "near" it."""
MAX_LATENCY_NS = 200_000
"""No launch takes longer: where run-ahead never falls below, the device was always behind."""
MOSTLY_QUEUED_FRAC = 0.9
"""Work was queued for so much of the step that the device was busy, whatever it did."""


class StepState(str, Enum):
    """The side that a step waited for."""

    DEVICE_BOUND = "device_bound"
    HOST_BOUND = "host_bound"
    DATA_BOUND = "data_bound"
    SYNC_BOUND = "sync_bound"


_WAITS = {
    StepState.DEVICE_BOUND: "it is the limit",
    StepState.HOST_BOUND: "it waits for the host",
    StepState.DATA_BOUND: "it waits for data",
    StepState.SYNC_BOUND: "the host stops to wait for it",
}


def gpu_line(busy_frac: float | None, state: StepState | None, doing: str = "") -> str:
    """Say how busy the device is, what with, and who waits.

    >>> gpu_line(0.43, StepState.HOST_BOUND), gpu_line(None, StepState.DATA_BOUND)
    ('GPU 43 % busy: it waits for the host', 'GPU: it waits for data')
    """
    busy = "" if busy_frac is None else f" {100 * busy_frac:.0f} % busy{doing}"
    return f"GPU{busy}" + (f": {_WAITS[state]}" if state is not None else "")


@dataclass(frozen=True)
class DeviceMarks:
    """The steps of a table that have all their marks: `rows` says which; the columns hold them.

    A phase that a step did not have took 0 ns there, and has a run-ahead of `NOT_MEASURED`.
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
        """The share of these steps in which the device had work queued for sure.

        From when the host passed a phase's end until the device did, it worked on what was queued.
        """
        queued = sum(
            int(np.minimum(column, np.maximum(0, self.ahead[phase] - self.latency_ns)).sum())
            for phase, column in self.device.items()
            if phase in self.ahead
        )
        return min(1.0, queued / max(1, int(self.dur.sum())))

    def state_frac(self) -> dict[StepState, float]:
        """Return the share of these steps in each state."""
        states = _states(self)
        return {state: float((states == i).mean()) for i, state in enumerate(StepState)}

    def line(self) -> str:
        """Say what the device does: busy only where it had work queued nearly always."""
        shares, queued = self.state_frac(), self.queued_frac
        state = max(shares, key=lambda one: shares[one])
        return gpu_line(queued if queued >= MOSTLY_QUEUED_FRAC else None, state)


def device_marks(columns: Mapping[str, Int64], chosen: Mask | None = None) -> DeviceMarks | None:
    """Return the marked ones of the chosen steps, or None where there are none."""
    device, ahead = _columns(columns, "device/"), _columns(columns, "run_ahead/")
    if "device_dur" not in columns or not ahead:
        return None
    rows = columns["device_dur"] != NOT_MEASURED
    rows &= np.logical_or.reduce([column != NOT_MEASURED for column in ahead.values()])
    rows = rows if chosen is None else rows & chosen
    if not rows.any():
        return None
    behind = {phase: column[rows] for phase, column in ahead.items()}
    return DeviceMarks(
        rows=rows,
        dur=columns["device_dur"][rows],
        # A marked step without a phase spent nothing in it.
        device={phase: np.maximum(0, column[rows]) for phase, column in device.items()},
        ahead={phase: one for phase, one in behind.items() if (one != NOT_MEASURED).any()},
    )


def _columns(columns: Mapping[str, Int64], prefix: str) -> dict[Phase, Int64]:
    found = {phase: columns.get(prefix + phase.value) for phase in Phase}
    return {phase: column for phase, column in found.items() if column is not None}


def _states(marks: DeviceMarks) -> Int64:
    dur, device, ahead = marks.dur, marks.device, marks.ahead
    near = marks.latency_ns + np.maximum(NEAR_NS, NEAR_FRAC * dur)
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
