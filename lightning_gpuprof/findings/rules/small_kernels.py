"""The GPU runs many kernels that are shorter than their own launch.

## Symptom
Most kernels take less than 10 µs, and the device is idle between them.

## Why
A launch costs the host 2 to 10 µs, whatever it starts. If most kernels are shorter than that, the
device waits for the next kernel most of the time.

## Fix
Fuse kernels, replay the step as a CUDA graph, use a fused optimizer, and batch what loops call one
by one.

```python
model = Model()  # before
model = torch.compile(Model(), mode="reduce-overhead")  # after
```

## How it is measured
A trace gives the number of kernels under 10 µs per step, and `gaps_ns`, the device's idle time
between kernels that were launched late or one by one. The saving is at least the gaps, and at most
the idle time of forward and backward.

## Limits
Kernels of a CUDA graph, or of one call of a recurrent layer, do not count.
"""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.trace_facts import TraceFacts, trace_facts
from lightning_gpuprof.analysis.savings import host_work
from lightning_gpuprof.analysis.trace.idle import WORKING_CAUSES
from lightning_gpuprof.analysis.trace.kernels import SHORT_NS
from lightning_gpuprof.findings.model import Effort, Finding, Horizon, Place, Range
from lightning_gpuprof.findings.rule import measured, rule
from lightning_gpuprof.records.device_marks import StepState
from lightning_gpuprof.units import duration, percent

GAPS = ("launch_latency", "kernel_gap")
OPTIMIZER = "optimizer"
LIBRARY_LOOPS = frozenset(
    f"aten::{name}{backward}"
    for name in ("_cudnn_rnn", "miopen_rnn")
    for backward in ("", "_backward")
)
ADVICE = (
    "Launch fewer kernels: capture the step as a CUDA graph or compile it, so that small kernels "
    "are fused or replayed together. Batch what a Python loop calls one by one."
)
COMPILE = (
    "Launch fewer kernels: compile the step, so that small kernels are fused. Batch what a Python "
    "loop calls one by one."
)
GRAPHED_ADVICE = (
    "Part of the step is a graph already: capture or compile the rest too, such as the loss and "
    "the code around the captured module."
)
GRAPHED_INFERENCE = (
    "Part of the step is a graph already: capture or compile the rest too, such as sampling and "
    "the preparation of inputs."
)
EFFORT = Effort(
    Horizon.MEDIUM,
    "compile the model, capture it as a graph, or batch a loop",
    "shapes must stay the same",
)
COMPILED = "model = torch.compile(model)"
COMPILE_EFFORT = Effort(
    Horizon.MEDIUM,
    "compile the model, or batch a loop",
    "first steps take long; new shapes recompile",
)


@rule(id="small-kernels", needs=("kernels",), effort=EFFORT)
def judge(run: RunResults) -> Finding | None:
    """Return the finding about gaps between short kernels."""
    facts, step_ns = measured(trace_facts(run)), measured(run.step_ns)
    work = host_work.host_work(run)
    reads = work.reads if work is not None and host_work.reads_in_a_loop(work) else 0
    short_frac = _short_frac(facts, reads)
    if short_frac is None or short_frac < host_work.SHORT_COUNT_FRAC:
        return None
    gaps, late = (
        facts.host_scale * (facts.idle_ns(*causes) or 0.0) for causes in (GAPS, WORKING_CAUSES)
    )
    idle_ns = round(min(facts.free_ns(step_ns), gaps + late))
    high = min(_longest_ns(run, facts, step_ns), idle_ns)
    # If steps wait for the host, only the time of the launching calls is surely saved.
    waits = run.device.time is not None and not run.device.time.is_behind
    sure, may = _shortened_frac(run)
    low = sure * min(_launching_ns(facts, reads) if waits else gaps, high)
    saving = Range(low=round(low), high=round(may * high))
    if not saving.high:
        return None
    short = [row for row in facts.analysis.kernels if (row.mean_ns or 0) < SHORT_NS]
    advice, change = _advice(run, facts)
    most = max(short, key=lambda row: row.count, default=None)
    return Finding(
        title=f"{percent(short_frac)} of kernels take under 10 µs, and the device idles "
        f"{duration(idle_ns)} between them",
        advice=advice,
        evidence={
            "thin_kernels_per_step_count": round(_short_count(facts)),
            "thin_kernels_frac": short_frac,
            "gaps_ns": idle_ns,
        },
        saving_ns=saving,
        cause_ns=Range(idle_ns, idle_ns),
        confidence=0.7,
        places=(Place(kernel=most.name),) if most else (),
        change=change,
        setting="compile" if change == COMPILED else None,
        effort=EFFORT if facts.takes_cuda_graphs else COMPILE_EFFORT,
        explains=("host-bound",),
    )


def _advice(run: RunResults, facts: TraceFacts) -> tuple[str, str | None]:
    """Return the advice, and the change if it is not made already."""
    if facts.replays_graphs:
        return GRAPHED_ADVICE if run.trains else GRAPHED_INFERENCE, None
    if facts.takes_cuda_graphs:
        return ADVICE, 'model = torch.compile(model, mode="reduce-overhead")'
    return COMPILE, None if facts.compiled else COMPILED


def _shortened_frac(run: RunResults) -> tuple[float, float]:
    """Return the share of steps that fewer launches make shorter: at least, and at most.

    Steps that wait for data of workers would only wait longer. In steps that wait for a value of
    the device, launches may be hidden by that wait.
    """
    if run.device.time is None:
        return 1.0, 1.0
    states, loader = run.device.time.state_frac, run.start.loader
    fed = loader is not None and bool(loader.num_workers)
    may = 1.0 - fed * states[StepState.DATA_BOUND]
    return may - states[StepState.SYNC_BOUND], may


def _short_frac(facts: TraceFacts, reads: int) -> float | None:
    """Return the share of kernels under 10 µs that the program launches one by one.

    Kernels that only read a value do not count.
    """
    short_kernels, launches = facts.analysis.thin_kernels, facts.analysis.launches
    if short_kernels is None:
        return None
    if launches is None:
        return short_kernels.count_frac
    one_by_one = max(0.0, short_kernels.count / facts.steps - reads - _launched_together(facts))
    return one_by_one / max(1.0, launches.kernel_count / facts.steps - reads)


def _short_count(facts: TraceFacts) -> float:
    """Return the number of kernels under 10 µs per step."""
    short_kernels = facts.analysis.thin_kernels
    return short_kernels.count / facts.steps if short_kernels else 0.0


def _launched_together(facts: TraceFacts) -> float:
    """Return how many kernels under 10 µs per step a CUDA graph or a recurrent layer launches."""
    layers = (row for row in facts.analysis.operators if row.name in LIBRARY_LOOPS)
    in_layers = sum(row.device_count or 0 for row in layers)
    launches = facts.analysis.launches
    in_graphs = launches.graphed_thin_count if launches else 0
    return in_layers / facts.steps + in_graphs / facts.steps


def _longest_ns(run: RunResults, facts: TraceFacts, step_ns: int) -> float:
    """Return by how much forward and backward can get shorter: their kernels must still run."""
    changed = [per.mean_ns for per in map(run.per_step, host_work.COMPUTE) if per is not None]
    behind = run.device.time is not None and run.device.time.is_behind
    # If the device is behind, the host's clock says when work was queued, not when it was done.
    whole = step_ns if behind or not changed else min(step_ns, sum(changed))
    return max(0.0, whole - (facts.device_step.compute_ns if facts.device_step else 0.0))


def _launching_ns(facts: TraceFacts, reads: int) -> float:
    """Return the time in launching calls of kernels under 10 µs, without those of the optimizer."""
    launches = facts.analysis.launches
    call_ns = launches.overhead.median_ns if launches and launches.overhead else 0
    updates = sum(
        row.count
        for row in facts.analysis.kernels
        if row.category == OPTIMIZER and (row.min_ns or 0) < SHORT_NS
    )
    count = _short_count(facts) - updates / facts.steps
    return facts.host_scale * call_ns * max(0.0, count - reads - _launched_together(facts))
