"""The optimizer updates parameters one by one.

## What it measures
`optimizer_ns`: mean time per steady step in the optimizer's step, on the host clock, of an
optimizer that has a fused form and does not use it, or on a CPU a form for lists; and the number of
parameter tensors. Of an optimizer that is not torch's, from a trace: the operators of its update.

## Why it matters
Unfused, an update is some ten operators for each parameter tensor, each dispatched from Python, and
each reads and writes its operands again. Fused, it is one pass over all of them.

## What to do
Pass `fused=True` (Adam, AdamW, SGD, Adagrad). On a GPU, torch's default (`foreach`) is in between.
On a CPU it is no default: where there is no fused form and tensors are small, pass `foreach=True`.
In place of a loop over parameters that came with a paper's code take torch's own, or write the
update for lists of tensors (`torch._foreach_*`).

## Thresholds
From measurement (docs/adr/0031; torch 2.13, AdamW, one core): unfused 25 to 60 µs per small tensor,
fused `FUSED_LOW_NS` to `FUSED_HIGH_NS`; on large ones, where memory decides, fused takes `BULK_LOW`
to `BULK_HIGH` of the time. `MIN_TENSORS`: fewer are no loop. On a GPU with `foreach`, the rule is
silent below `FOREACH_FRAC` of a step, and its low bound is 0: nothing was measured there. Severity:
the common scale (`findings/grade.py`). What a Trainer does around the
updates stays (`AROUND_LOW_NS` to `AROUND_HIGH_NS`), and each further group of parameters is a
fused update of its own (`FUSED_NS`). On a CPU, SGD without momentum and
weight decay is one operator per tensor already: measured, its fused form is no faster, so it is not
told. SGD and Adagrad refuse `fused=True` for sparse gradients (`nn.Embedding(..., sparse=True)`).
Of another's optimizer `LEAST_CALLS` operators for each tensor are a loop: fewer are as good as
fused. One named after torch's (`MyAdamW`) saves as that does unfused; else each operator that is
called for a list saves `LIST_LOW_NS` to `LIST_HIGH_NS` on a CPU (docs/adr/0031), and for certain
where an update takes no more than small tensors' do: of large ones a list was slower than a loop.
Torch's own that have a form for lists and no fused one (`LISTED`) save `LISTED_LOW` to
`LISTED_HIGH` of the update with it, measured on tensors of up to `LISTED_NUMBERS` on average
(docs/adr/0031); larger ones are not told. ASGD was slower so, and Rprop no faster.
"""

import re
from typing import Any

from lightning_gpuprof.analysis.run.phase_split import PerStep
from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.trace_facts import trace_facts
from lightning_gpuprof.analysis.savings.hidden import exposed
from lightning_gpuprof.analysis.savings.host_work import computes, parameter_tensors
from lightning_gpuprof.findings.grade import grade
from lightning_gpuprof.findings.model import Abstained, Effort, Finding, Horizon, Range, Where
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.units import duration, percent

ID = "unfused-optimizer"
EFFORT = Effort(Horizon.QUICK, "one argument of the optimizer", "last digits of weights differ")
FUSED = ("Adam", "AdamW", "SGD", "Adagrad")
TAKE_SPARSE = ("SGD", "Adagrad")
"""Of these, those that update by sparse gradients too, unfused alone (torch 2.13)."""
MIN_TENSORS = 4
FUSED_LOW_NS, FUSED_HIGH_NS = 2_000, 6_000
UNFUSED_NS = 25_000
FUSED_NS = (8_000, 26_000)
"""Of each further group of parameters (docs/adr/0031)."""
BULK_LOW, BULK_HIGH = 0.2, 0.6
FOREACH_FRAC = 0.10
LISTED = ("NAdam", "RAdam", "Adamax", "Adadelta", "RMSprop")
LISTED_LOW, LISTED_HIGH = 0.1, 0.5
LISTED_NUMBERS = 2_304
LEAST_CALLS = 3
LIST_LOW_NS, LIST_HIGH_NS = 1_000, 2_000
_TWIN = re.compile(r"(?:^|_|(?<=[a-z]))(AdamW|Adam|SGD|Adagrad)(?![A-Za-z])")
"""Torch's own that a class is named after: `MyAdamW`, not `RAdam`."""
AROUND_LOW_NS, AROUND_HIGH_NS = 100_000, 250_000
"""A step of Lightning's around the updates themselves, which stays."""


def evaluate(run: RunResults) -> Finding | Abstained | None:
    """Return a finding where a fused form would be faster."""
    step, step_ns = run.per_step(Phase.OPTIMIZER_STEP), run.step_ns
    if step is None or step_ns is None:
        return Abstained(ID, "no step's optimizer was measured")
    optimizers: list[dict[str, Any]] = run.start.model.get("optimizers") or []
    tensors = parameter_tensors(run)
    if not optimizers or tensors is None:
        return Abstained(ID, "the run's records do not say which optimizers it has")
    written = next((one for one in optimizers if one.get("package", "torch") != "torch"), None)
    if written is not None:
        return _by_hand(run, step_ns, step, str(written["class"]), tensors)
    sparse = bool(run.start.model.get("sparse_gradients"))
    unfused = [o for o in optimizers if _gains(o, on_gpu=run.on_gpu, sparse=sparse)]
    if not unfused and not run.on_gpu:
        listed = [o for o in optimizers if o.get("class") in LISTED and not o.get("foreach")]
        # The time and the tensors are those of all optimizers.
        alone = len(listed) == len(optimizers)
        return _in_lists(run, step_ns, step, listed, tensors) if alone else None
    if not unfused or tensors < MIN_TENSORS:
        return None
    loops = not run.on_gpu or any(o.get("foreach") is False for o in unfused)
    if not loops and step.mean_ns < FOREACH_FRAC * step_ns:
        return None
    name = str(unfused[0]["class"])
    groups_more = sum(max(0, int(one.get("groups", 1)) - 1) for one in unfused)
    saving = _saving(run, step, tensors, groups_more, loops=loops)
    if not saving.high:
        return None
    return Finding(
        id=ID,
        severity=grade(saving, step_ns),
        title=_title(name, step, step_ns, tensors) + ("one by one" if loops else "in groups"),
        advice=f"Let {name} update all parameters in one pass (fused=True).",
        evidence=_evidence(step, step_ns, tensors),
        saving_ns=saving,
        confidence=0.8 if loops else 0.4,
        where=(Where(phase=Phase.OPTIMIZER_STEP.value, name=name),),
        change=f"torch.optim.{name}(..., fused=True)"
        + (f"  # each of the {len(unfused)}" if len(optimizers) > 1 else ""),
    )


def _title(name: str, step: PerStep, step_ns: int, tensors: int) -> str:
    return (
        f"{name} takes {duration(step.mean_ns)} of each step ({percent(step.mean_ns / step_ns)}) "
        f"to update {tensors} tensors "
    )


def _evidence(step: PerStep, step_ns: int, tensors: int) -> dict[str, int | float]:
    return {
        "optimizer_ns": step.mean_ns,
        "optimizer_frac": step.mean_ns / step_ns,
        "parameter_tensors_count": tensors,
        "step_ns": step_ns,
    }


def _in_lists(
    run: RunResults, step_ns: int, step: PerStep, listed: list[dict[str, Any]], tensors: int
) -> Finding | None:
    """Return a finding of an optimizer of torch's that has a form for lists, and no fused one."""
    numbers = run.start.model.get("parameters")
    if not listed or tensors < MIN_TENSORS or not numbers or numbers > LISTED_NUMBERS * tensors:
        return None
    around_low_ns, around_high_ns = (
        around * (step.active_frac or 1.0) for around in (AROUND_LOW_NS, AROUND_HIGH_NS)
    )
    saving = Range(
        low=round(LISTED_LOW * max(0, step.mean_ns - around_high_ns)),
        high=round(LISTED_HIGH * max(0, step.mean_ns - around_low_ns)),
    )
    if not saving.high:
        return None
    name = str(listed[0]["class"])
    return Finding(
        id=ID,
        severity=grade(saving, step_ns),
        title=_title(name, step, step_ns, tensors) + "one by one",
        advice=f"{name} has no fused form: let it update lists of all tensors, which on a CPU it "
        "does only if told to (foreach=True).",
        evidence=_evidence(step, step_ns, tensors),
        saving_ns=saving,
        confidence=0.8,
        where=(Where(phase=Phase.OPTIMIZER_STEP.value, name=name),),
        change=f"torch.optim.{name}(..., foreach=True)"
        + (f"  # each of the {len(listed)}" if len(listed) > 1 else ""),
    )


def _by_hand(
    run: RunResults, step_ns: int, step: PerStep, name: str, tensors: int
) -> Finding | Abstained | None:
    """Return a finding of an optimizer that is not torch's, and goes through tensors in Python."""
    facts = trace_facts(run)
    updating = [op for op in facts.operators.values() if op.update_calls] if facts else []
    if facts is None or not updating:
        return Abstained(ID, f"what {name} does in its step takes an analysed trace of one")
    together = any(op.name.startswith(("aten::_foreach", "aten::_fused")) for op in updating)
    calls = sum(op.update_calls for op in updating if computes(op))
    updates = step.active_frac or 1.0
    if together or tensors < MIN_TENSORS or calls < LEAST_CALLS * tensors * updates:
        return None
    twin = _TWIN.search(name)
    saving = _saving(run, step, tensors, 0, loops=True)
    if twin is None:
        most = step.mean_ns if run.on_gpu else round(LIST_HIGH_NS * calls)
        # Lists of large tensors may be slower, and one update's operators are known where each
        # traced step has one.
        unsure = run.on_gpu or updates < 1 or step.mean_ns > UNFUSED_NS * tensors
        low = 0 if unsure else round(LIST_LOW_NS * calls)
        saving = Range(low=min(low, step.mean_ns), high=min(most, step.mean_ns))
    # Where few batches have an update, a trace of a few steps may have more of them than its share.
    each = f", {round(calls / tensors)} operators for each" if updates == 1 else ""
    return Finding(
        id=ID,
        severity=grade(saving, step_ns),
        title=f"{name} takes {duration(step.mean_ns)} of each step "
        f"({percent(step.mean_ns / step_ns)}): a Python loop over {tensors} tensors" + each,
        advice=(f"Take torch's own {twin[1]}, fused, if it computes the same. " if twin else "")
        + "What torch has not: write the update for lists of all tensors (torch._foreach_mul_ and "
        "the like), not for one after the other.",
        evidence={**_evidence(step, step_ns, tensors), "update_calls_count": round(calls)},
        saving_ns=saving,
        confidence=0.7 if twin else 0.5,
        where=(Where(phase=Phase.OPTIMIZER_STEP.value, name=name),),
        change=f"torch.optim.{twin[1]}(..., fused=True)  # in place of {name}" if twin else None,
    )


def _gains(optimizer: dict[str, Any], *, on_gpu: bool, sparse: bool) -> bool:
    """Tell whether an optimizer has a fused form that it does not use and that is faster."""
    if optimizer.get("class") not in FUSED or optimizer.get("fused"):
        return False
    if sparse and optimizer["class"] in TAKE_SPARSE:
        return False
    several = optimizer.get("momentum") or optimizer.get("weight_decay")
    return on_gpu or optimizer["class"] != "SGD" or bool(several)


def _saving(
    run: RunResults, step: PerStep, tensors: int, groups_more: int, *, loops: bool
) -> Range:
    group_low_ns, group_high_ns = FUSED_NS
    # What is known is of one update, which not every batch has.
    updates = step.active_frac or 1.0
    update_ns = step.mean_ns / updates
    low = _saved(update_ns - AROUND_HIGH_NS, tensors, FUSED_HIGH_NS, BULK_HIGH)
    low = max(0, low - group_high_ns * groups_more) * updates
    high = _saved(update_ns - AROUND_LOW_NS, tensors, FUSED_LOW_NS, BULK_LOW)
    high = max(0, high - group_low_ns * groups_more) * updates
    if not run.on_gpu:
        return Range(low=round(low), high=round(high))
    lost = exposed(run, Phase.OPTIMIZER_STEP, step.mean_ns)
    share = lost.high_ns / max(1, step.mean_ns)
    return Range(low=round(low * share) if loops else 0, high=round(high * share))


def _saved(update_ns: float, tensors: int, fused_ns: int, bulk: float) -> float:
    bulk_ns = max(0, update_ns - UNFUSED_NS * tensors)
    return max(0, update_ns - fused_ns * tensors - bulk * bulk_ns)
