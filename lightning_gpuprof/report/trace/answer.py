"""The answer of a trace's document: GPU busy, which side waits, and what to change first."""

from collections import Counter
from collections.abc import Sequence

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.trace_tables import DeviceSplit, TraceAnalysis
from lightning_gpuprof.findings.in_use import faster
from lightning_gpuprof.findings.model import Finding
from lightning_gpuprof.findings.ranking import proposed
from lightning_gpuprof.records.device_marks import MOSTLY_QUEUED_FRAC, StepState, gpu_line
from lightning_gpuprof.report.document import Section, Text, Verdict
from lightning_gpuprof.report.run.answer import change_verdict
from lightning_gpuprof.report.run.limit import mostly_with
from lightning_gpuprof.units import duration

RECORD = "Record whole steps with CPU and GPU activities, to see what the device waits for."
OTHER_TOOL = (
    "Record with torch.profiler, or give a file of Nsight Systems, rocprof or JAX's profiler."
)
HOST_ALONE = (
    "The figures below are of the host alone: look at the device with its maker's own tools."
)
RECORD_ON = {
    "an Apple GPU (MPS)": "torch.profiler does not record what an Apple GPU does: host times are "
    "those of queueing work. Record with torch.mps.profiler.profile(), and look with Instruments.",
    "an Ascend NPU": "Record with torch_npu.profiler and ProfilerActivity.NPU.",
    "an Intel Gaudi (HPU)": "Record with ProfilerActivity.HPU.",
    "an XLA device, such as a TPU": "Record with torch_xla.debug.profiler, and give the xplane.pb "
    "that it writes.",
    "a GPU": "Record with ProfilerActivity.CUDA, which is the name for AMD too.",
}
"""How to record the work of a device, by the device."""
MOST_KINDS = 4
_WAITING = {
    "host_data_wait": StepState.DATA_BOUND,
    "host_sync": StepState.SYNC_BOUND,
    "unknown": None,
    "dependency": None,
}
"""What a device waits for while it is idle, by cause; for all other causes it is the host."""


def answer_sections(
    analysis: TraceAnalysis, run: RunResults, findings: Sequence[Finding]
) -> tuple[Section, ...]:
    """Return what limits the trace, and what to change first; `run` is the trace seen as a run."""
    if not findings or analysis.gpu is None or analysis.doubts:
        return (Section("verdict", "", "first", (_limit(analysis),)),)
    limit = Text((f"{_busy_line(analysis.gpu, analysis)}.",), "strong")
    first = change_verdict(proposed(findings) or findings[0], run)
    return Section("limit", "", "first", (limit,)), Section("verdict", "", "first", (first,))


def _limit(analysis: TraceAnalysis) -> Verdict:
    gpu = analysis.gpu
    if gpu is None:
        return _without_device(analysis)
    if analysis.doubts:
        title = "GPU: not known"
        sentence = f"{analysis.doubts[0]} No finding rests on it. {RECORD}"
        return Verdict("not_measured", "Verdict", title, sentence)
    state = waiting_side(gpu, analysis)
    infers = analysis.purpose == "inference"
    change = faster(state, analysis, trains=not infers) if state is not None else RECORD
    return Verdict("limit", "Verdict", _busy_line(gpu, analysis), change)


def _without_device(analysis: TraceAnalysis) -> Verdict:
    """Say what a trace without device events is: never that there is no GPU if there may be."""
    if analysis.passed_over:
        by = f": written by {analysis.tool}" if analysis.tool else ""
        title = f"GPU: not known{by}"
        kinds = ", ".join(f"`{row.kind}`" for row in analysis.passed_over[:MOST_KINDS])
        passed_ns = sum(row.total_ns for row in analysis.passed_over)
        sentence = f"{duration(passed_ns)} of events were passed over, in kinds not known here: "
        remedy = HOST_ALONE if (analysis.tool or "").startswith("torch.profiler") else OTHER_TOOL
        return Verdict("not_measured", "Verdict", title, f"{sentence}{kinds}. {remedy}")
    if analysis.quality.launch_count or analysis.warnings:
        title = "GPU: not known"
        sentence = f"The trace holds no device events that can be read. {RECORD}"
        return Verdict("not_measured", "Verdict", title, sentence)
    if analysis.unrecorded_device is not None:
        title = f"GPU: not recorded, but operators ran on {analysis.unrecorded_device}"
        sentence = RECORD_ON.get(analysis.unrecorded_device, RECORD)
        return Verdict("not_measured", "Verdict", title, sentence)
    title = "No GPU: the trace has only host events"
    top = max(analysis.operators, key=lambda operator: operator.self_ns, default=None)
    if top is None:
        return Verdict("not_measured", "Verdict", title, RECORD)
    sentence = f"Begin with {top.name}, which takes {duration(top.self_ns)} of self time."
    return Verdict("limit", "Verdict", title, sentence)


def waiting_side(gpu: DeviceSplit, analysis: TraceAnalysis) -> StepState | None:
    """Return what the first device waits for during most of its idle time.

    A device that is hardly ever idle is the limit itself. None if the cause is unknown.
    """
    if (gpu.busy_frac or 0.0) >= MOSTLY_QUEUED_FRAC:
        return StepState.DEVICE_BOUND
    idle_ns = Counter[StepState | None]()
    for row in analysis.idle:
        idle_ns[_WAITING.get(row.cause, StepState.HOST_BOUND)] += row.total_ns
    return max(idle_ns, key=lambda side: idle_ns[side], default=None)


def _busy_line(gpu: DeviceSplit, analysis: TraceAnalysis) -> str:
    doing = mostly_with(gpu.compute_ns, gpu.exposed_copy_ns, gpu.exposed_comm_ns)
    state = waiting_side(gpu, analysis)
    device = "NPU" if analysis.device is not None and analysis.device.vendor == "huawei" else "GPU"
    return gpu_line(gpu.busy_frac or 0.0, state, f", {doing}" if doing else "", device=device)
