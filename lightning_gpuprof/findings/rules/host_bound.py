"""The device waits for the host: Python and dispatch take longer than the computing itself.

## What it measures
On a GPU, `host_bound_frac`: the share of steps through which the device's run-ahead stayed near
the launch latency, so that it had nothing queued. Without device marks, from a trace:
`host_idle_ns`, the device's idle time per step in which the host was still at work on the next
launch. On a CPU, where both are one, `overhead_ns`: the compute phases of a step less the time of
operators of some length, from a trace.

## Why it matters
A host-bound step gets no faster from a faster device, only from less host work per step.

## What to do
Do the same work in fewer, larger operators: batch what a Python loop calls one by one, use a fused
optimizer, `torch.compile` (on a GPU with `mode="reduce-overhead"`, CUDA graphs), or a larger batch.
Where a loop of the program makes most calls of torch's functions in two of the first batches
(`findings/places.py`), its line is named, and doing its turns at once is the change, unless a turn
gives to a call what the one before gave (`x = block(x)`). A loop over an `nn.LSTMCell`, `GRUCell`
or `RNNCell` is what `nn.LSTM`, `GRU` or `RNN` does in one call, where no input needs an output and
nothing is done to the state between turns.

## Thresholds
`MIN_STATE_FRAC`: most steps. `MIN_CALLS`: below a hundred thin calls there is nothing to batch, nor
where the program calls fewer of torch's functions than that and the small operators are theirs, as
in products of complex matrices on a CPU. One call of `torch.autograd.grad` is a whole backward
pass, so where a loop takes gradients that does not count; there at most what samples saw of the
loop's function goes, and as large a share of the backward pass. `CALLS_PER_TENSOR`
(`savings/host_work.py`, docs/adr/0031): a model as such makes some calls per parameter tensor; on a
CPU only the overhead of what is above counts. How much recording slowed long operators down is not
known, so the overhead has bounds (`EVENT_NS`). Where nearly all calls above the usual number come
one right after the other (`COVERED`), they are timed by themselves, less what recording them took
(`savings/call_time.py`). `LOOP_LOW_FRAC` (`findings/loop_cures.py`): of a loop's overhead that much
goes at least when its body becomes one operator over all elements, and, where it is not timed by
itself, no less than its calls take in the fastest case (`CALL_NS` each); at most all of it and what
longer operators in the loop take (`LOOPED`; why not what goes beside it: docs/adr/0031). Where each
turn needs what the one before gave, no operator does theirs at once, and how many of a turn's calls
can go is not known: nothing is the least, without those the most, and on a CPU it is told as
`info`. The loop inside a recurrent layer (`nn.GRU`, `nn.LSTM`) is torch's own: its share is left
out (`RECURRENT`), and where it is most of forward (`MOSTLY`) nothing is said. Values read one by
one are `host-sync`'s. `IDLE_FRAC`: of a traced step, and where most kernels are thin the idle time
is `small-kernels`'s. `TRACED_LOW_FRAC`: recording slows the host down, the device not, so part of
that idle time is the profiler's. Where no trace has the device's kernels, up to half of a step may
be launches. A device that waits for a host which queues work for less than `MOSTLY` of a step waits
for something else, such as a copy from pageable memory: without a loop nothing is said. Severity:
the common scale (`findings/grade.py`).
"""

from dataclasses import replace

from lightning_gpuprof.analysis.run.device_time import StepState
from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.trace_facts import TraceFacts, trace_facts
from lightning_gpuprof.analysis.savings.host_work import COMPUTE, HostWork, anomaly_on, host_work
from lightning_gpuprof.analysis.trace.idle import LATE_CAUSES
from lightning_gpuprof.findings.grade import grade
from lightning_gpuprof.findings.loop_cures import (
    LOOP_LOW_FRAC,
    GradientLoop,
    LoopInForward,
    loop_in_forward,
)
from lightning_gpuprof.findings.model import (
    Abstained,
    Effort,
    Finding,
    Horizon,
    Range,
    Severity,
    Where,
)
from lightning_gpuprof.findings.no_trace import no_trace
from lightning_gpuprof.findings.places import calls_of
from lightning_gpuprof.findings.rules.host_sync import reads_in_a_loop
from lightning_gpuprof.findings.rules.small_kernels import THIN_COUNT_FRAC
from lightning_gpuprof.records.function_calls import function_notes
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.units import duration, percent

ID = "host-bound"
ADVICE = (
    "Do the same work in fewer, larger operators: batch what a Python loop calls one by one, fuse "
    "the optimizer, compile{with_graphs}, or raise the batch size."
)
AT_ONCE_EXPLAINS = ("slow-slice-backward",)
"""Where all turns are done at once nothing is indexed in each any more."""
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
    loop = loop_in_forward(run)
    found = _evaluate(run, loop)
    if isinstance(found, Finding) and loop is not None and loop.gradients is not None:
        found = _with_gradients(run, found, loop.gradients)
    if isinstance(found, Finding) and _necessary(run, loop):
        found = replace(found, severity=Severity.INFO)
    if not isinstance(found, Finding) or loop is None:
        return found
    if loop.busy.loop is not None and not loop.chain:
        found = replace(found, explains=AT_ONCE_EXPLAINS)
    return loop.told(found)


def _necessary(run: RunResults, loop: LoopInForward | None) -> bool:
    """Tell whether the calls are those of a loop that may have to be as it is."""
    return loop is not None and loop.chain and not loop.at_once and not run.on_gpu


def _with_gradients(run: RunResults, found: Finding, loop: GradientLoop) -> Finding:
    """Return the finding with what gradients taken one by one cost, in operators of any length."""
    if run.on_gpu or run.step_ns is None:
        return found
    high = min(run.step_ns, max(found.saving_ns.high, loop.takes_ns))
    saving = Range(low=found.saving_ns.low, high=high)
    takes_ns = min(run.step_ns, loop.takes_ns)
    title = (
        f"A loop takes gradients one by one, {duration(takes_ns)} of each step "
        f"({percent(takes_ns / run.step_ns)}) with what the backward pass has for them"
    )
    return replace(found, title=title, saving_ns=saving, severity=grade(saving, run.step_ns))


def _evaluate(run: RunResults, loop: LoopInForward | None) -> Finding | Abstained | None:
    chain = loop is not None and loop.chain
    gradients = loop is not None and loop.gradients is not None
    if run.step_ns is None:
        return Abstained(ID, "no step was recorded")
    if anomaly_on(run):
        return Abstained(ID, "anomaly detection is on: its operators hide the model's own")
    work = host_work(run)
    if run.device_time is not None:
        frac = run.device_time.state_frac[StepState.HOST_BOUND]
        if frac < MIN_STATE_FRAC:
            return None
        loops = work is not None and work.loops_most_ns > 0
        if not loops and not _queues(run, run.step_ns):
            return None
        return _on_gpu(run.step_ns, frac, work, trace_facts(run), chain=chain)
    if run.on_gpu:
        facts = trace_facts(run)
        if facts is None or not facts.on_device:
            return Abstained(ID, "no device marks arrived, so run-ahead is unknown")
        return _traced(run.step_ns, facts)
    if work is None:
        return no_trace(ID)
    if work.recurrent_frac > MOSTLY:
        return Abstained(
            ID,
            f"{percent(work.recurrent_frac)} of the forward pass is inside recurrent layers, whose "
            "loops are torch's own: small operators beside theirs cannot be told apart",
        )
    thin_calls = round(work.own_frac * work.thin_calls)
    if thin_calls < MIN_CALLS or not work.repeated_ns or reads_in_a_loop(work):
        return None
    seen = function_notes(run.notes)
    called = calls_of(seen) if seen is not None else None
    if called is not None and called < MIN_CALLS and not gradients:
        return None
    return _finding(
        run.step_ns,
        f"{duration(work.loops_ns)} of each step ({percent(work.loops_ns / run.step_ns)}) "
        f"is Python and dispatch around {thin_calls:,} small operators",
        {},
        work,
        confidence=0.7 if work.usual_calls is not None else 0.4,
        chain=chain,
        on_gpu=False,
    )


def _queues(run: RunResults, step_ns: int) -> bool:
    """Tell whether the host queues work for a good part of a step."""
    queueing = [per.mean_ns for phase in QUEUEING if (per := run.per_step(phase)) is not None]
    return sum(queueing) >= MOSTLY * step_ns


def _on_gpu(
    step_ns: int, frac: float, work: HostWork | None, facts: TraceFacts | None, *, chain: bool
) -> Finding:
    title = f"{percent(frac)} of the steps wait for the host to queue work"
    evidence = {"host_bound_frac": frac}
    found = _finding(step_ns, title, evidence, work, confidence=0.8, chain=chain)
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
    chain: bool = False,
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
        most = min(step_ns, work.loops_ns if chain else work.loops_most_ns)
        least = round(LOOP_LOW_FRAC * work.loops_least_ns)
        if work.stretches is None:
            least = max(least, work.dispatch_ns)
        saving = Range(low=0 if chain else min(least, most), high=most)
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
