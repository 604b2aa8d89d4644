"""The device waits for the host: Python and dispatch take longer than the computing itself.

## What it measures
On a GPU, `host_bound_frac`: the share of steps through which the device's run-ahead stayed near the
launch latency. Without device marks, from a trace: `host_idle_ns`, the device's idle time per step
in which the host was still at work on the next launch. On a CPU, from a trace: `overhead_ns`, the
compute phases of a step less the time of operators of some length.

## Why it matters
A host-bound step gets no faster from a faster device, only from less host work per step.

## What to do
Do the same work in fewer, larger operators: batch what a Python loop calls one by one, use a fused
optimizer, `torch.compile` (on a GPU with `mode="reduce-overhead"`), or a larger batch.

## Thresholds
`MIN_STATE_FRAC`: most steps. `MIN_CALLS`: below a hundred thin calls there is nothing to batch. On
a CPU only calls above the usual number of such a model count (`CALLS_PER_TENSOR` of
`savings/host_work.py`, docs/adr/0031), and at least `LOOP_LOW_FRAC` of these goes. `IDLE_FRAC`: of
a traced step. `TRACED_LOW_FRAC`: the rest of that idle time may be the profiler's. `MOSTLY`: of a
step that the host queues work for, or of forward in recurrent layers. Severity: the common scale
(`findings/grade.py`).
"""

from dataclasses import replace

from lightning_gpuprof.analysis.run.device_time import StepState
from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.trace_facts import TraceFacts, trace_facts
from lightning_gpuprof.analysis.savings.host_work import (
    COMPUTE,
    LOOP_LOW_FRAC,
    THIN_COUNT_FRAC,
    HostWork,
    anomaly_on,
    host_work,
    reads_in_a_loop,
)
from lightning_gpuprof.analysis.trace.idle import LATE_CAUSES
from lightning_gpuprof.findings.grade import grade
from lightning_gpuprof.findings.model import Abstained, Effort, Finding, Horizon, Range, Where
from lightning_gpuprof.findings.no_trace import no_trace
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.units import duration, percent

ID = "host-bound"
ADVICE = (
    "Do the same work in fewer, larger operators: batch what a Python loop calls one by one, fuse "
    "the optimizer, compile{with_graphs}, or raise the batch size."
)
EFFORT = Effort(
    Horizon.MEDIUM,
    "loops become tensor operations, or the model is compiled",
    "results may differ in the last digits",
)
MIN_STATE_FRAC = 0.5
MIN_CALLS = 100
MOSTLY = 0.5
IDLE_FRAC = 0.25
TRACED_LOW_FRAC = 0.3
QUEUEING = (*COMPUTE, Phase.ZERO_GRAD, Phase.CLIP_GRADIENTS, Phase.OPTIMIZER_STEP)


def evaluate(run: RunResults) -> Finding | Abstained | None:
    """Return a finding where host work holds most steps back."""
    if run.step_ns is None:
        return Abstained(ID, "no step was recorded")
    if anomaly_on(run):
        return Abstained(ID, "anomaly detection is on: its operators hide the model's own")
    work = host_work(run)
    if run.device_time is not None:
        frac = run.device_time.state_frac[StepState.HOST_BOUND]
        loops = work is not None and work.loops_most_ns > 0
        if frac < MIN_STATE_FRAC or not (loops or _queues(run, run.step_ns)):
            return None
        return _on_gpu(run.step_ns, frac, work, trace_facts(run))
    if run.on_gpu:
        facts = trace_facts(run)
        if facts is None or not facts.on_device:
            return Abstained(ID, "no device marks arrived, so run-ahead is unknown")
        return _traced(run.step_ns, facts)
    if work is None:
        return no_trace(ID)
    thin_calls = round(work.own_frac * work.thin_calls)
    few = thin_calls < MIN_CALLS or not work.repeated_ns
    if few or work.recurrent_frac > MOSTLY or reads_in_a_loop(work):
        return None
    return _finding(
        run.step_ns,
        f"{duration(work.loops_ns)} of each step ({percent(work.loops_ns / run.step_ns)}) "
        f"is Python and dispatch around {thin_calls:,} small operators",
        {},
        work,
        confidence=0.7 if work.usual_calls is not None else 0.4,
        on_gpu=False,
    )


def _queues(run: RunResults, step_ns: int) -> bool:
    """Tell whether the host queues work for a good part of a step."""
    queueing = [per.mean_ns for phase in QUEUEING if (per := run.per_step(phase)) is not None]
    return sum(queueing) >= MOSTLY * step_ns


def _on_gpu(step_ns: int, frac: float, work: HostWork | None, facts: TraceFacts | None) -> Finding:
    title = f"{percent(frac)} of the steps wait for the host to queue work"
    found = _finding(step_ns, title, {"host_bound_frac": frac}, work, confidence=0.8)
    if facts is None or not facts.on_device:
        # Only a trace with kernels says how many launches there are to save beside loops.
        high = max(found.saving_ns.high, step_ns // 2)
        saving = Range(low=found.saving_ns.low, high=high)
        found = replace(found, saving_ns=saving, severity=grade(saving, step_ns))
    return replace(found, change='model = torch.compile(model, mode="reduce-overhead")')


def _traced(step_ns: int, facts: TraceFacts) -> Finding | None:
    idle_ns = round((facts.idle_ns(*LATE_CAUSES) or 0.0) * facts.host_scale)
    thin_frac = facts.number("thin_kernels", "count_frac") or 0.0
    if idle_ns < IDLE_FRAC * step_ns or thin_frac >= THIN_COUNT_FRAC:
        return None
    title = (
        f"The device idles {duration(idle_ns)} of each step ({percent(idle_ns / step_ns)}) "
        "because the host has not launched yet"
    )
    found = _finding(step_ns, title, {"host_idle_ns": idle_ns}, None, confidence=0.5)
    saving = Range(low=round(TRACED_LOW_FRAC * idle_ns), high=idle_ns)
    return replace(found, saving_ns=saving, severity=grade(saving, step_ns))


def _finding(
    step_ns: int,
    title: str,
    evidence: dict[str, int | float],
    work: HostWork | None,
    confidence: float,
    *,
    on_gpu: bool = True,
) -> Finding:
    evidence = {**evidence, "step_ns": step_ns}
    where: tuple[Where, ...] = ()
    saving = Range(low=0, high=step_ns // 2)
    if work is not None:
        evidence["overhead_ns"] = work.overhead_ns
        evidence["repeated_ns"] = work.loops_ns
        evidence["thin_calls_count"] = round(work.own_frac * work.thin_calls)
        where = (Where(name=work.worst),) if work.worst else ()
        most = min(step_ns, work.loops_most_ns)
        least = round(LOOP_LOW_FRAC * work.loops_least_ns)
        if work.stretches is None:
            least = max(least, work.dispatch_ns)
        saving = Range(low=min(least, most), high=most)
    return Finding(
        id=ID,
        severity=grade(saving, step_ns),
        title=title,
        advice=ADVICE.format(with_graphs=" with CUDA graphs" if on_gpu else ""),
        evidence=evidence,
        saving_ns=saving,
        confidence=confidence,
        where=where,
        change="model = torch.compile(model)",
    )
