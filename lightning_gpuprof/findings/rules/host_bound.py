"""The device waits for the host: Python and dispatch take longer than the computation itself.

## Symptom
The device has nothing queued through most steps. On a CPU, much of forward and backward is spent
dispatching small operators.

## Why
A faster device does not make such a step faster. Only less work on the host does.

## Fix
Use fewer and larger operators, a fused optimizer, `torch.compile` or a larger batch.

```python
for t in range(len(x)): out.append(self.f(x[t]))  # before
out = self.f(x)  # after
```

## How it is measured
`host_bound_frac` is the share of steps in which the device waited for the host, by the timing
events that the callback records on the device, and `host_idle_ns`, the device's idle time behind
late launches, comes from a trace. On a CPU, `overhead_ns` is the compute phases without their
longer operators. Only calls beyond the usual number for a model of this kind count.

## Limits
Loops inside recurrent layers are torch's own. The rule is silent while anomaly detection is on,
because its operators cannot be told from the model's.
"""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.trace_facts import TraceFacts, trace_facts
from lightning_gpuprof.analysis.savings import host_work
from lightning_gpuprof.analysis.trace.idle import LATE_CAUSES
from lightning_gpuprof.findings.in_use import between_replays
from lightning_gpuprof.findings.model import Effort, Finding, Horizon, Place, Range
from lightning_gpuprof.findings.rule import evidence_of, rule
from lightning_gpuprof.records.device_marks import StepState
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.units import duration, percent

GRAPHS = 'model = torch.compile(model, mode="reduce-overhead")'
MIN_STATE_FRAC = 0.5
MIN_CALLS = 100
"""With fewer short calls in forward, the program has nothing to batch: the others are
autograd's."""
MOSTLY = 0.5
IDLE_FRAC = 0.25
TRACED_LOW_FRAC = 0.3
"""Recording slows the host down, not the device, so part of the idle time is due to the
profiler."""
QUEUEING = (*host_work.COMPUTE, Phase.ZERO_GRAD, Phase.CLIP_GRADIENTS, Phase.OPTIMIZER_STEP)
EFFORT = Effort(
    Horizon.MEDIUM,
    "loops become tensor operations, or the model is compiled",
    "results may differ in the last digits",
)
COMPILED = "model = torch.compile(model)"
EFFORTS = {
    GRAPHS: Effort(
        Horizon.MEDIUM, "compile the model, with CUDA graphs", "shapes must stay the same"
    ),
    COMPILED: Effort(
        Horizon.MEDIUM, "compile the model", "first steps take long; new shapes recompile"
    ),
}


@rule(id="host-bound", needs=("marks or trace",), effort=EFFORT)
def judge(run: RunResults) -> Finding | None:
    """Return the finding about steps that wait for the host."""
    step_ns, work, facts = run.step_ns, host_work.host_work(run), trace_facts(run)
    if step_ns is None or host_work.anomaly_on(run):
        return None
    if not run.on_gpu:
        return _on_cpu(run, step_ns, work) if work is not None else None
    if run.device.time is None:
        return _traced(run, step_ns, facts) if facts is not None and facts.on_device else None
    frac = run.device.time.state_frac[StepState.HOST_BOUND]
    loops = work is not None and work.loops_most_ns > 0
    if frac < MIN_STATE_FRAC or not (loops or _queues(run, step_ns)):
        return None
    saving = _of_loops(step_ns, work)
    if facts is None or not facts.on_device:
        # Without kernels it is not known how many launches could be saved beside those of loops.
        saving = Range(low=saving.low, high=max(saving.high, step_ns // 2))
    title = f"{percent(frac)} of the steps wait for the host to queue work"
    return _finding(run, title, saving, 0.8, work, host_bound_frac=frac)


def _on_cpu(run: RunResults, step_ns: int, work: host_work.HostWork) -> Finding | None:
    few = round(work.own_frac * work.forward_calls) < MIN_CALLS or not work.repeated_ns
    if few or work.recurrent_frac > MOSTLY or host_work.reads_in_a_loop(work):
        return None
    saving = _of_loops(step_ns, work)
    title = f"{duration(saving.high)} of each step ({percent(saving.high / step_ns)}) "
    title += "dispatches small operators"
    confidence = 0.7 if work.usual_calls is not None else 0.4
    return _finding(run, title, saving, confidence, work)


def _traced(run: RunResults, step_ns: int, facts: TraceFacts) -> Finding | None:
    idle_ns = round((facts.idle_ns(*LATE_CAUSES) or 0.0) * facts.host_scale)
    if idle_ns < IDLE_FRAC * step_ns or _short_frac(facts) >= host_work.SHORT_COUNT_FRAC:
        return None
    title = f"The device idles {duration(idle_ns)} of each step behind late launches"
    saving = Range(low=round(TRACED_LOW_FRAC * idle_ns), high=idle_ns)
    return _finding(run, title, saving, 0.5, None, host_idle_ns=idle_ns)


def _short_frac(facts: TraceFacts) -> float:
    """Return the share of kernels under 10 µs that are launched one by one, not in a graph."""
    short_kernels, launches = facts.analysis.thin_kernels, facts.analysis.launches
    if short_kernels is None or not short_kernels.count:
        return 0.0
    graphed = launches.graphed_thin_count if launches is not None else 0
    return short_kernels.count_frac * max(0, short_kernels.count - graphed) / short_kernels.count


def _queues(run: RunResults, step_ns: int) -> bool:
    """Return whether the host queues work for much of the step."""
    queueing = [per.mean_ns for phase in QUEUEING if (per := run.per_step(phase)) is not None]
    return sum(queueing) >= MOSTLY * step_ns


def _of_loops(step_ns: int, work: host_work.HostWork | None) -> Range:
    if work is None:
        return Range(low=0, high=step_ns // 2)
    most = min(step_ns, work.loops_most_ns)
    return Range(low=min(round(host_work.LOOP_LOW_FRAC * work.repeated_ns), most), high=most)


def _finding(
    run: RunResults,
    title: str,
    saving: Range,
    confidence: float,
    work: host_work.HostWork | None,
    **figures: float,
) -> Finding:
    facts = trace_facts(run)
    change = _change(run, facts)
    return Finding(
        title=title,
        advice=_advice(run, facts),
        evidence=evidence_of(
            **figures,
            overhead_ns=work.overhead_ns if work else None,
            repeated_ns=work.repeated_ns if work else None,
            thin_calls_count=round(work.own_frac * work.short_calls) if work else None,
        ),
        saving_ns=saving,
        cause_ns=saving,
        confidence=confidence,
        places=(Place(name=work.worst),) if work and work.worst else (),
        change=change,
        setting="compile" if change == COMPILED else None,
        effort=EFFORTS.get(change or ""),
    )


def _advice(run: RunResults, facts: TraceFacts | None) -> str:
    """Return the ways to fewer operators that are not in use already."""
    if facts is not None and facts.replays_graphs:
        return between_replays(trains=run.trains)
    ways = ["batch what a Python loop calls one by one"]
    if run.trains:
        ways.append("fuse the optimizer")
    if run.on_gpu and (facts is None or facts.takes_cuda_graphs):
        ways.append("compile with CUDA graphs")
    elif not (facts is not None and facts.compiled):
        ways.append("compile")
    done = ", ".join(ways)
    return f"Do the same work in fewer, larger operators: {done}, or raise the batch size."


def _change(run: RunResults, facts: TraceFacts | None) -> str | None:
    """Return the change that is not made already."""
    if facts is not None and facts.replays_graphs:
        return None
    if run.on_gpu and (facts is None or facts.takes_cuda_graphs):
        return GRAPHS
    return None if facts is not None and facts.compiled else COMPILED
