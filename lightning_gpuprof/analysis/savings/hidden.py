"""How much of a phase's host time lengthens the step, given what the device does meanwhile."""

from dataclasses import dataclass

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.records.device_marks import StepState
from lightning_gpuprof.records.phases import Phase

AROUND_FRAC = 0.2
"""Removing a cost saves its time to within this share, as caches and Python's lock make other code
slower or faster (docs/adr/0031)."""
MARK_ERROR_FRAC = 0.1
"""The assumed error of a phase's device time: marks are set around host calls, not kernels."""


def around(cost_ns: int, step_ns: int | None = None) -> tuple[int, int]:
    """Return the least and the most that removing a measured cost saves.

    With `step_ns`, it saves at most the cost and half of the rest of the step.

    >>> around(1_000), around(900, step_ns=1_000)
    ((800, 1200), (720, 950))
    """
    most_ns = round((1 + AROUND_FRAC) * cost_ns)
    if step_ns is not None:
        most_ns = min(most_ns, cost_ns + max(0, step_ns - cost_ns) // 2)
    return round((1 - AROUND_FRAC) * cost_ns), most_ns


@dataclass(frozen=True)
class Exposed:
    """By how much a step gets shorter without some host time."""

    low_ns: int
    high_ns: int
    basis: str
    """"cpu" (nothing overlaps), "device marks", or "unknown" (a GPU without device marks)."""


def exposed(run: RunResults, phase: Phase, host_ns: int) -> Exposed:
    """Return by how much a step gets shorter without `host_ns` of a phase that queues no work.

    On a CPU, by about all of it (`AROUND_FRAC`), because host and device are the same. A GPU may
    still be busy with work that was queued before. Between two marks with no work queued between
    them, the device's own time is the time in which it was idle, and only that is saved.
    """
    if not run.on_gpu:
        return Exposed(*around(host_ns, run.step_ns), "cpu")
    marks = run.device.time.phases.get(phase) if run.device.time else None
    if marks is None or not marks.host_mean_ns:
        return Exposed(0, host_ns, "unknown")
    idle_ns = host_ns * min(1.0, marks.mean_ns / marks.host_mean_ns)
    return Exposed(
        low_ns=round(idle_ns * (1 - MARK_ERROR_FRAC)),
        high_ns=round(min(host_ns, idle_ns * (1 + MARK_ERROR_FRAC))),
        basis="device marks",
    )


def faster_kernels(run: RunResults, step_ns: int, low_ns: float, high_ns: float) -> tuple[int, int]:
    """Return by how much a step gets shorter if its kernels take `low_ns` to `high_ns` less.

    In a step that waits for the host or for data, the device would only idle longer. Without device
    marks, all steps are assumed to wait for the device.
    """
    waiting_frac = 1.0
    if run.device.time is not None:
        states = run.device.time.state_frac
        waiting_frac = 1.0 - states[StepState.HOST_BOUND] - states[StepState.DATA_BOUND]
    low, high = waiting_frac * low_ns, waiting_frac * high_ns
    return round(min(step_ns, low)), round(min(step_ns, high))
