"""The optimizer updates parameters one by one.

## Symptom
The optimizer's step takes long for many small tensors, and the optimizer does not use its fused
form.

## Why
Without fusing, an update is about ten operators per tensor, each dispatched from Python (25 to 60
µs per tensor). A fused update is one pass over all tensors (2 to 6 µs per tensor).

## Fix
```python
torch.optim.AdamW(params)  # before
torch.optim.AdamW(params, fused=True)  # after
```

Write an optimizer of your own with operations on lists of tensors (`torch._foreach_*`).

## How it is measured
`optimizer_ns` is the host time per step. The saving follows from the number of tensors and from
costs that were measured on one core (docs/adr/0031). For optimizers of other packages, a trace
shows the operators of the update.

## Limits
What the Trainer does around the update stays. On a GPU with `foreach` (the default) the saving may
be nothing. SGD without momentum gains nothing on a CPU.
"""

import re

from lightning_gpuprof.analysis.run.phase_split import PerStep
from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.settings import OptimizerFacts, settings_of
from lightning_gpuprof.analysis.run.trace_facts import trace_facts
from lightning_gpuprof.analysis.savings.hidden import exposed
from lightning_gpuprof.analysis.savings.host_work import parameter_tensors
from lightning_gpuprof.analysis.trace.operators import computes
from lightning_gpuprof.findings.model import Effort, Finding, Horizon, Place, Range
from lightning_gpuprof.findings.rule import measured, rule
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.units import duration, percent

FUSED = ("Adam", "AdamW", "SGD", "Adagrad")
"""Optimizers with a fused form on CPUs and GPUs."""
TAKE_SPARSE = ("SGD", "Adagrad")
"""Of these, the ones that accept sparse gradients, but only unfused."""
MIN_TENSORS = 4
FUSED_LOW_NS, FUSED_HIGH_NS = 2_000, 6_000
UNFUSED_NS = 25_000
GROUP_NS = (8_000, 26_000)
"""The least and the most that each further group of parameters costs (docs/adr/0031)."""
BULK_LOW, BULK_HIGH = 0.2, 0.6
"""The least and the most of the time that a fused update takes on large tensors, whose bytes
decide."""
FOREACH_FRAC = 0.10
LEAST_CALLS = 3
"""With so many operators per tensor, an optimizer of another package updates tensors one by one."""
AROUND_LOW_NS, AROUND_HIGH_NS = 100_000, 250_000
"""What Lightning does around the update, which stays."""
_TWIN = re.compile(r"(?:^|_|(?<=[a-z]))(AdamW|Adam|SGD|Adagrad)(?![A-Za-z])")
"""Matches the optimizer of torch that a class is named after: in `MyAdamW`, but not in `RAdam`."""
EFFORT = Effort(Horizon.QUICK, "one argument of the optimizer", "last digits of weights differ")
TWIN_EFFORT = Effort(Horizon.QUICK, "another optimizer class", "it may compute something else")
LISTS_EFFORT = Effort(Horizon.MEDIUM, "the optimizer's code", "last digits of weights differ")


@rule(id="unfused-optimizer", needs=("training", "steps", "model"), effort=EFFORT)
def judge(run: RunResults) -> Finding | None:
    """Return the finding about an optimizer that a fused update would make faster."""
    step, step_ns = run.per_step(Phase.OPTIMIZER_STEP), measured(run.step_ns)
    settings = settings_of(run.start)
    optimizers = settings.optimizers
    tensors = parameter_tensors(run) or 0
    if step is None or not optimizers or tensors < MIN_TENSORS:
        return None
    foreign = [optimizer for optimizer in optimizers if optimizer.package not in (None, "torch")]
    if foreign:
        return _of_other_package(run, step, foreign[0].name, tensors)
    sparse = settings.sparse_gradients
    unfused = [
        optimizer for optimizer in optimizers if _gains(optimizer, on_gpu=run.on_gpu, sparse=sparse)
    ]
    loops = not run.on_gpu or any(optimizer.foreach is False for optimizer in unfused)
    if not unfused or (not loops and step.mean_ns < FOREACH_FRAC * step_ns):
        return None
    name = unfused[0].name
    groups_more = sum(max(0, optimizer.groups - 1) for optimizer in unfused)
    saving = _saving(run, step, tensors, groups_more, loops=loops)
    advice = f"Let {name} update all parameters in one pass (fused=True)."
    change = f"torch.optim.{name}(..., fused=True)"
    if len(optimizers) > 1:
        change += "  # all of them"
    return _finding(run, name, step, tensors, saving, advice, change, 0.8 if loops else 0.4)


def _finding(
    run: RunResults,
    name: str,
    step: PerStep,
    tensors: int,
    saving: Range,
    advice: str,
    change: str | None,
    confidence: float,
    effort: Effort = EFFORT,
) -> Finding | None:
    step_ns = measured(run.step_ns)
    if not saving.high:
        return None
    return Finding(
        title=f"{name} takes {duration(step.mean_ns)} of each step "
        f"({percent(step.mean_ns / step_ns)}), unfused",
        advice=advice,
        evidence={"optimizer_ns": step.mean_ns, "parameter_tensors_count": tensors},
        saving_ns=saving,
        cause_ns=Range(step.mean_ns, step.mean_ns),
        confidence=confidence,
        places=(Place(phase=Phase.OPTIMIZER_STEP.value, name=name),),
        change=change,
        setting=None if change is None else "optimizer=fused",
        effort=effort,
    )


def _of_other_package(run: RunResults, step: PerStep, name: str, tensors: int) -> Finding | None:
    """Return the finding about another package's optimizer that loops over tensors in Python."""
    facts = trace_facts(run)
    updating = [op for op in facts.operators.values() if op.update_calls] if facts else []
    together = any(op.name.startswith(("aten::_foreach", "aten::_fused")) for op in updating)
    calls = sum(op.update_calls for op in updating if computes(op.name))
    if not updating or together or calls < LEAST_CALLS * tensors * (step.active_frac or 1.0):
        return None
    twin = _TWIN.search(name)
    saving = _saving(run, step, tensors, 0, loops=True)
    lists = f"{name} loops over {tensors} tensors in Python: update lists of tensors instead "
    lists += "(torch._foreach_mul_ and the like)."
    if twin is None:  # lists of large tensors may be no faster
        most = Range(0, saving.high)
        return _finding(run, name, step, tensors, most, lists, None, 0.5, LISTS_EFFORT)
    advice = f"Use torch's own {twin[1]}, fused, if it computes the same. Otherwise: {lists}"
    change = f"torch.optim.{twin[1]}(..., fused=True)  # in place of {name}"
    return _finding(run, name, step, tensors, saving, advice, change, 0.7, TWIN_EFFORT)


def _gains(optimizer: OptimizerFacts, *, on_gpu: bool, sparse: bool) -> bool:
    """Return whether an optimizer has a faster fused form that it does not use."""
    if optimizer.name not in FUSED or optimizer.fused:
        return False
    if sparse and optimizer.name in TAKE_SPARSE:
        return False
    several_operators = optimizer.momentum or optimizer.weight_decay
    return on_gpu or optimizer.name != "SGD" or several_operators


def _saving(
    run: RunResults, step: PerStep, tensors: int, groups_more: int, *, loops: bool
) -> Range:
    # The costs are those of one update, and not every batch makes an update.
    updates = step.active_frac or 1.0
    update_ns = step.mean_ns / updates
    low = _saved(update_ns - AROUND_HIGH_NS, tensors, FUSED_HIGH_NS, BULK_HIGH)
    low = max(0, low - GROUP_NS[1] * groups_more) * updates
    high = _saved(update_ns - AROUND_LOW_NS, tensors, FUSED_LOW_NS, BULK_LOW)
    high = max(0, high - GROUP_NS[0] * groups_more) * updates
    if not run.on_gpu:
        return Range(low=round(low), high=round(high))
    lost = exposed(run, Phase.OPTIMIZER_STEP, step.mean_ns)
    share = lost.high_ns / max(1, step.mean_ns)
    return Range(low=round(low * share) if loops else 0, high=round(high * share))


def _saved(update_ns: float, tensors: int, fused_ns: int, bulk: float) -> float:
    bulk_ns = max(0, update_ns - UNFUSED_NS * tensors)
    return max(0, update_ns - fused_ns * tensors - bulk * bulk_ns)
