"""The GPU runs many kernels that are shorter than their own launch.

## What it measures
From a trace: kernels per step, those below 10 µs (`thin`), and the device's idle time between
kernels that were launched too late or one by one (`launch_latency`, `kernel_gap`, `host_operator`,
`host_region`, `host_python`, `host_launch_call`), scaled to steps without the profiler. A gap in
which the host launched nothing for ten times as long as it usually takes from one launch to the
next (`trace/host_stretches.py`) is left out: there it did something else. So is the kernel before
each read of a loop that reads value after value: that loop is host-sync's.

## Why it matters
A kernel costs the host 2 to 10 µs to launch whatever it does. Where most kernels are shorter, the
device waits for the next one most of the time.

## What to do
Launch fewer: fuse (`torch.compile`), replay the step as one CUDA graph
(`mode="reduce-overhead"`), use fused optimizers and larger batches. Where a loop of the program
makes most calls, do its turns at once.

## Thresholds
`THIN_COUNT_FRAC`: most kernels, and launched one by one: those of a graph need one launch, and
those inside one call of a recurrent layer (`LIBRARY_LOOPS`) are not the program's to fuse:
torch.compile leaves that call as it is. What compiling or capturing changes is in forward and
backward, and the kernels still have to run: at most what these two phases take, less the time that
kernels run, can go; what the Trainer, the loader and the optimizer do stays. At least gaps between
kernels and launch latency go (`GAPS`), as idle time while the host was at an operator or in Python
may have another cause. Where most steps wait for the host that latency passes beside its next work:
there at least the time inside the launching calls of thin kernels goes, but for those of the
optimizer. Nothing goes beyond the time that the device does not work. Steps that wait for worker
processes to make their data get no shorter: they only wait for longer. In steps that wait for a
value of the device, latency may pass beside what they wait for: they count at most. Severity: the
common scale (`findings/grade.py`).
"""

from lightning_gpuprof.analysis.run.device_time import StepState
from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.trace_facts import TraceFacts, trace_facts
from lightning_gpuprof.analysis.savings.host_work import COMPUTE, THIN_COUNT_FRAC
from lightning_gpuprof.analysis.trace.idle import WORKING_CAUSES
from lightning_gpuprof.analysis.trace.kernels import THIN_NS
from lightning_gpuprof.findings.grade import grade
from lightning_gpuprof.findings.model import Abstained, Effort, Finding, Horizon, Range, Where
from lightning_gpuprof.findings.no_trace import KERNELS, no_trace
from lightning_gpuprof.units import duration, percent

ID = "small-kernels"
EFFORT = Effort(
    Horizon.MEDIUM,
    "compile the model, capture it as a graph, or do a loop's turns at once",
    "shapes must stay the same",
)
GAPS = ("launch_latency", "kernel_gap")
OPTIMIZER = "optimizer"
LIBRARY_LOOPS = frozenset(
    f"aten::{name}{backward}"
    for name in ("_cudnn_rnn", "miopen_rnn")
    for backward in ("", "_backward")
)
ADVICE = (
    "Launch less: capture the step as a CUDA graph or compile it, so that small kernels are fused "
    "or replayed together."
)
GRAPHED_ADVICE = (
    "A part of the step is replayed as a graph already: capture what is still launched kernel by "
    "kernel too (the loss, what is around the captured module), or compile it."
)
LARGER_BATCH = (
    " A larger batch saves nothing of a step, and most of it per sample: the device has time for "
    "more work per launch."
)
EXPLAINS = ("host-bound",)


def evaluate(run: RunResults) -> Finding | Abstained | None:
    """Return a finding where short kernels leave gaps."""
    facts = trace_facts(run)
    if run.step_ns is None or facts is None or not facts.on_device:
        return no_trace(ID, KERNELS)
    reads = facts.loop_reads
    thin_frac = _thin_frac(facts, reads)
    if thin_frac is None or thin_frac < THIN_COUNT_FRAC:
        return None
    gaps, late = (
        facts.host_scale * (facts.idle_ns(*causes) or 0.0) for causes in (GAPS, WORKING_CAUSES)
    )
    late -= facts.host_scale * facts.stretch_ns(*WORKING_CAUSES)
    late = max(0.0, late - facts.host_scale * facts.loop_idle_ns())
    if not gaps + late:
        return None
    free_ns = facts.free_ns(run.step_ns)
    idle_ns = round(min(free_ns, gaps + late))
    longest = min(free_ns, _longest_ns(run, facts, run.step_ns))
    # Where the host holds the steps back, a launch's latency passes beside its next work.
    waits = run.device_time is not None and not run.device_time.is_behind
    least = _launching_ns(facts, reads) if waits else gaps
    high = min(longest, idle_ns)
    saving = Range(low=round(min(least, high)), high=round(high))
    costs = f"the device idles {duration(idle_ns)} of each step between launches"
    sure, may = _shortened_frac(run)
    saving = Range(low=round(sure * saving.low), high=round(may * saving.high))
    if not saving.high:
        return None
    return _finding(facts, run.step_ns, thin_frac, idle_ns, saving, costs)


def _shortened_frac(run: RunResults) -> tuple[float, float]:
    """Return the share of steps that fewer launches make shorter for sure, and at most.

    1 where nothing was marked. Data that the training process makes itself is waited for beside no
    other work of its own, so that such steps get shorter, too.
    """
    if run.device_time is None:
        return 1.0, 1.0
    states, loader = run.device_time.state_frac, run.start.loader
    fed = loader is not None and bool(loader.num_workers)
    may = 1.0 - fed * states[StepState.DATA_BOUND]
    return may - states[StepState.SYNC_BOUND], may


def _thin_frac(facts: TraceFacts, reads: float) -> float | None:
    """Return the share of thin kernels that the program launches one by one.

    Not of those that a graph or a recurrent layer's one call launched; of reads, each of a loop
    waits for a kernel that is not counted.
    """
    frac = facts.number("thin_kernels", "count_frac")
    thin, kernels = (
        facts.per_step(table, count)
        for table, count in (("thin_kernels", "count"), ("launches", "kernel_count"))
    )
    if frac is None or thin is None or kernels is None:
        return frac
    return max(0.0, thin - reads - _launched_together(facts)) / max(1.0, kernels - reads)


def _launched_together(facts: TraceFacts) -> float:
    """Return how many thin kernels per step one launch, or one call of a library, launches."""
    layers = (row for row in facts.rows("operators") if row.get("name") in LIBRARY_LOOPS)
    in_layers = sum(row.get("device_count") or 0 for row in layers) / facts.steps
    return in_layers + (facts.per_step("launches", "graphed_thin_count") or 0.0)


def _longest_ns(run: RunResults, facts: TraceFacts, step_ns: int) -> float:
    """Return what forward and backward can get shorter by: their kernels still have to run."""
    changed = [per.mean_ns for phase in COMPUTE if (per := run.per_step(phase)) is not None]
    behind = run.device_time is not None and run.device_time.is_behind
    # Where the device is behind, the host's clock says when work was queued, not when it was done.
    whole = step_ns if behind or not changed else min(step_ns, sum(changed))
    return max(0.0, whole - (facts.per_step("gpu", "compute_ns") or 0.0))


def _launching_ns(facts: TraceFacts, reads: float) -> float:
    """Return the time inside the launching calls of thin kernels, of a steady step."""
    each = facts.number("launches", "overhead", "median_ns") or 0.0
    # Of one name some may be longer: at the least, all of it are thin kernels of the optimizer.
    updates = sum(
        row.get("count") or 0
        for row in facts.rows("kernels")
        if row.get("category") == OPTIMIZER and (row.get("min_ns") or 0) < THIN_NS
    )
    thin = (facts.per_step("thin_kernels", "count") or 0.0) - updates / facts.steps - reads
    thin -= _launched_together(facts)
    return facts.host_scale * each * max(0.0, thin)


def _finding(
    facts: TraceFacts, step_ns: int, thin_frac: float, idle_ns: int, saving: Range, costs: str
) -> Finding:
    kernels = facts.number("launches", "kernels_per_step")
    evidence: dict[str, int | float] = {
        "thin_kernels_per_step_count": round(facts.per_step("thin_kernels", "count") or 0.0),
        "thin_kernels_frac": thin_frac,
        "gaps_ns": idle_ns,
        "step_ns": step_ns,
    }
    if kernels is not None:
        evidence["kernels_per_step_count"] = round(kernels)
    short = [row for row in facts.rows("kernels") if (row.get("mean_ns") or 0) < THIN_NS]
    most = max(short, key=lambda row: row.get("count") or 0, default=None)
    graphs = bool(facts.number("launches", "graph_count"))
    return Finding(
        id=ID,
        severity=grade(saving, step_ns),
        title=f"{percent(thin_frac)} of the kernels are below {THIN_NS // 1_000} µs, and {costs}",
        advice=(GRAPHED_ADVICE if graphs else ADVICE) + LARGER_BATCH,
        evidence=evidence,
        saving_ns=saving,
        confidence=0.7,
        where=(Where(kernel=str(most["name"])),) if most else (),
        change=None if graphs else 'model = torch.compile(model, mode="reduce-overhead")',
        explains=EXPLAINS,
    )
