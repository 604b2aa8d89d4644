"""How much of a phase's host time really lengthens the step, given what runs at the same time."""

from dataclasses import dataclass

from lightning_gpuprof.analysis.run.device_time import StepState
from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.records.phases import Phase

AROUND_FRAC = 0.2
"""Removing a cost saves its time within this share: caches and Python's lock (docs/adr/0031)."""
MARK_ERROR_FRAC = 0.1
"""Taken as the error of a phase's device time: marks bound host calls, not kernels."""


def around(cost_ns: int, step_ns: int | None = None) -> tuple[int, int]:
    """Return the least and the most that removing a timed cost saves.

    Where the cost is most of the step, at most half of the rest goes with it.

    >>> around(1_000), around(900, step_ns=1_000)
    ((800, 1200), (720, 950))
    """
    most_ns = round((1 + AROUND_FRAC) * cost_ns)
    if step_ns is not None:
        most_ns = min(most_ns, cost_ns + max(0, step_ns - cost_ns) // 2)
    return round((1 - AROUND_FRAC) * cost_ns), most_ns


@dataclass(frozen=True)
class Exposed:
    """The part of some host time that the step would lose with it, per step."""

    low_ns: int
    high_ns: int
    basis: str
    """"cpu" (nothing overlaps), "device marks", or "unknown" (a GPU without marks)."""


def exposed(run: RunResults, phase: Phase, host_ns: int) -> Exposed:
    """Say how much shorter a step gets when `host_ns` of a phase that queues no work go.

    On a CPU all of it, more or less (`AROUND_FRAC`): host and device are one. On a GPU the device
    may still be busy with what was queued before; between two marks with nothing queued between
    them, the device's own time is the time it stood idle, and only that is lost.
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
    """Return by how much faster kernels make a step shorter, where the device holds it up.

    In a step that waits for the host, or for data, it would only idle for longer. Where nothing was
    marked, all are taken to be held up.
    """
    held = 1.0
    if run.device.time is not None:
        states = run.device.time.state_frac
        held = 1.0 - states[StepState.HOST_BOUND] - states[StepState.DATA_BOUND]
    return round(min(step_ns, held * low_ns)), round(min(step_ns, held * high_ns))
