"""GPU busy: the share of the device's steady, unprofiled step in which it works."""

from dataclasses import dataclass

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.trace_facts import trace_facts
from lightning_gpuprof.records.device_marks import MOSTLY_QUEUED_FRAC, StepState

_PARTS = {
    "busy_frac": "busy_ns",
    "compute_frac": "compute_ns",
    "communication_frac": "exposed_comm_ns",
    "copies_frac": "exposed_copy_ns",
}


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
    """What most steps waited for; None without device marks."""
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
    found = {name: facts.per_step("gpu", key) for name, key in _PARTS.items()} if facts else {}
    work = {name: ns for name, ns in found.items() if ns is not None}
    if len(work) == len(_PARTS):
        whole = max(step_ns, work["busy_frac"])
        shares = {name: ns / whole for name, ns in work.items()}
        return GpuBusy("trace", state, step_ns, **shares, idle_frac=1 - shares["busy_frac"])
    if device is None:
        return None
    sure = device.queued_frac >= MOSTLY_QUEUED_FRAC
    return GpuBusy("marks", state, step_ns, device.queued_frac if sure else None)
