"""GPU busy: the share of the device's steady, unprofiled step in which it works."""

from dataclasses import dataclass

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.trace_facts import trace_facts
from lightning_gpuprof.records.device_marks import MOSTLY_QUEUED_FRAC, StepState, limiting


@dataclass(frozen=True)
class GpuBusy:
    """Shares of the mean steady step on the device's clock; the parts and idle add up to 1.

    The step is an unprofiled one, while the work is that of profiled steps: recording slows the
    host down, but hardly any kernel. Without a trace, device marks show in which share of the step
    work was queued at least. If that is not nearly all of it, all shares are None.
    """

    basis: str
    """"trace" or "marks"."""
    state: StepState | None
    """What limits most steps; None without device marks."""
    step_ns: int
    busy_frac: float | None = None
    compute_frac: float | None = None
    communication_frac: float | None = None
    copies_frac: float | None = None
    idle_frac: float | None = None


def gpu_busy(run: RunResults) -> GpuBusy | None:
    """Return how busy this rank's GPU is; None without a trace and device marks."""
    device, facts = run.device.time, trace_facts(run)
    step_ns = device.dur.mean_ns if device is not None else run.step_ns
    if not run.on_gpu or not step_ns:
        return None
    state = device.state if device is not None else None
    traced = facts.device_step if facts else None
    if traced is not None:
        whole_ns = max(step_ns, traced.busy_ns)
        busy_frac = traced.busy_ns / whole_ns
        return GpuBusy(
            basis="trace",
            state=None if state is None else limiting(state, busy_frac),
            step_ns=step_ns,
            busy_frac=busy_frac,
            compute_frac=traced.compute_ns / whole_ns,
            communication_frac=traced.exposed_comm_ns / whole_ns,
            copies_frac=traced.exposed_copy_ns / whole_ns,
            idle_frac=1 - traced.busy_ns / whole_ns,
        )
    if device is None:
        return None
    sure = device.queued_frac >= MOSTLY_QUEUED_FRAC
    limit = limiting(device.state, device.queued_frac)
    return GpuBusy("marks", limit, step_ns, device.queued_frac if sure else None)
