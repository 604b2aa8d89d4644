"""A metric keeps the values of every batch.

## Symptom
Memory grows from step to step, and computing the metric takes longer and longer.

## Why
Metrics of curves and rankings, such as AUROC, keep all predictions and targets until they are
reset. Lightning resets a metric at the epoch's end if the metric itself was logged. It does not
know a metric of which only the value was logged.

## Fix
```python
self.log("auc", self.train_auc.compute())  # before: nothing resets self.train_auc
self.log("auc", self.train_auc, on_epoch=True)  # after

self.train_auc = BinaryAUROC(thresholds=200)  # counts of a fixed size instead of all values
```

Without logging, call `self.train_auc.reset()` in `on_train_epoch_end`. Pass detached tensors: a
metric that keeps a tensor with its graph keeps the activations of that step, too.

## How it is measured
`state_bytes` is the size of the metric's list states where it was largest. The saving is the cost
of the phases that take longer and longer, as in `memory-growth`, or half and more of the time at
sampled lines that call a metric. A metric counts as never reset if
a fit ended and its count of updates never fell. Others are reported only if memory grows by as much
as the metric does.

## Limits
The rule is silent if the states have less than 64 MiB and neither memory nor a phase grows, and
metrics take less than 5% of the step. It
knows metrics of torchmetrics that are attributes of the module or of a callback.
"""

from collections.abc import Sequence

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.findings.grade import WARNING_FRAC, grade
from lightning_gpuprof.findings.growing import growth_cost
from lightning_gpuprof.findings.model import Effort, Finding, Horizon, Place, Range, Severity
from lightning_gpuprof.findings.rule import measured, rule
from lightning_gpuprof.records.lines import LineCount
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.units import size

MIN_BYTES = 64 * 2**20
"""Less is in nobody's way, unless memory is measured to grow by it."""
WARN_BYTES_PER_STEP = 100_000
"""This is a gigabyte in 10,000 steps."""
LEAST_FRAC = 0.5
"""At least this share of a metric's time goes once it works on the values of a batch or an epoch.
Updating it stays."""
LIKE_GROWTH = 0.5
"""A metric explains the growth of memory if it keeps this share of it or more."""
RESET = (
    "Nothing resets {name}. Log the metric itself, and Lightning resets it at each epoch's end; or "
    "call {name}.reset() in a hook at the epoch's end."
)
BOUNDED = "{name} keeps all values until the epoch's end."
THRESHOLDS = " With thresholds=200 it keeps counts of a fixed size instead of all values."
GRAPH = " It holds the autograd graph of every step, too: pass it detached tensors."
EFFORT = Effort(Horizon.QUICK, "how the metric is logged or reset", "none")


@rule(id="growing-metric", needs=("steps", "metrics"), effort=EFFORT)
def judge(run: RunResults) -> Finding | None:
    """Return the finding about the metric that keeps most."""
    metric, memory = run.facts.metrics[0], run.memory.growth
    steps = measured(run.steps).ran
    per_step_bytes = metric.num_bytes / max(1, min(steps, metric.updates))
    explains = memory is not None and (
        metric.holds_graph or per_step_bytes >= LIKE_GROWTH * memory.bytes_per_step
    )
    never_reset = not metric.was_reset and run.trains and run.status == "finished"
    if not never_reset and not explains:
        return None
    cost, lines = growth_cost(run, alone=memory is None), _lines(run)
    saving = max(cost.saving, _spent(run, lines), key=lambda saved: saved.high)
    if not explains and metric.num_bytes < MIN_BYTES and not saving.high:
        return None
    severity = grade(saving, measured(run.step_ns))
    fast = per_step_bytes >= WARN_BYTES_PER_STEP
    if severity is Severity.INFO and fast:
        severity = Severity.WARNING
    advice = (RESET if never_reset else BOUNDED).format(name=metric.name)
    advice += THRESHOLDS if metric.lacks_thresholds else ""
    advice += GRAPH if metric.holds_graph else ""
    phases = list(cost.phases) or [Phase.FORWARD]
    attribute = metric.name.rpartition(".")[2]
    title = f"{metric.metric} {metric.name} keeps {size(per_step_bytes)} of each update"
    return Finding(
        severity=severity,
        title=f"{title}, and is never reset" if never_reset else title,
        advice=advice,
        evidence={
            **cost.evidence,
            "state_bytes": metric.num_bytes,
            "updates_count": metric.updates,
        },
        saving_ns=saving,
        cause_ns=saving,
        confidence=0.9,
        places=(
            *(Place.at(line, phase=line.phase) for line in lines[:1]),
            *(Place(phase=phase.value, name=None if cost.phases else "metric") for phase in phases),
        ),
        change=f'self.log("{attribute}", {metric.name})' if never_reset else None,
        matters=fast,
        explains=("memory-growth", "growing-step", "slowed-down"),
    )


def _lines(run: RunResults) -> list[LineCount]:
    """Return the sampled lines of forward that call a metric, those with the most samples first."""
    return run.lines.of(Phase.FORWARD, ("metric",)) if run.lines is not None else []


def _spent(run: RunResults, lines: Sequence[LineCount]) -> Range:
    """Return what goes of the time at the lines that call a metric; nothing if that is little."""
    forward = run.per_step(Phase.FORWARD)
    if run.lines is None or forward is None or not lines:
        return Range(0, 0)
    low, high = (frac * forward.mean_ns for frac in run.lines.interval(lines, Phase.FORWARD))
    if low < WARNING_FRAC * measured(run.step_ns):
        return Range(0, 0)
    return Range(round(LEAST_FRAC * low), round(high))
