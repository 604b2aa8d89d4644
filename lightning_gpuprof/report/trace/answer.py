"""The answer of a trace's document: GPU busy, which side waits, and what to change first."""

from collections import Counter
from collections.abc import Sequence

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.trace_tables import DeviceSplit, TraceAnalysis
from lightning_gpuprof.findings.model import Finding
from lightning_gpuprof.records.device_marks import MOSTLY_QUEUED_FRAC, StepState, gpu_line
from lightning_gpuprof.report.document import Section, Text, Verdict
from lightning_gpuprof.report.run.answer import change_verdict
from lightning_gpuprof.report.run.limit import SIDES, mostly_with
from lightning_gpuprof.units import duration

RECORD = "Record whole steps with CPU and GPU activities, to see what the device waits for."
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
    first = change_verdict(findings[0], run)
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
    change = SIDES[state][1] if state is not None else RECORD
    return Verdict("limit", "Verdict", _busy_line(gpu, analysis), change)


def _without_device(analysis: TraceAnalysis) -> Verdict:
    if analysis.quality.launch_count or analysis.warnings:
        title = "GPU: not known"
        sentence = f"The trace holds no device events that can be read. {RECORD}"
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
    return gpu_line(gpu.busy_frac or 0.0, state, f", {doing}" if doing else "")
