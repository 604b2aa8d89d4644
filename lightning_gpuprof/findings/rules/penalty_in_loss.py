"""An L2 penalty is summed up over the weights in the loss, where the optimizer has it built in.

## What it measures
`penalty_ns`: host time per step of squaring and adding up the model's parameters in the forward
pass, where the sum joins the loss, from one of the run's first batches.

## Why it matters
Each tensor of weights is read, squared into a tensor of its size and added up, and in the backward
pass gets a gradient of its size that is added to the other one: several passes over all weights,
each with operators of its own. `weight_decay` adds the same to the gradient while the optimizer
has it at hand.

## What to do
`weight_decay=...` of `SGD` or `Adam`: the same gradient as half the sum of squares times that
number. (`AdamW` decays apart from the gradient, which is often better and not the same.) A penalty
of some weights alone is that of a parameter group. To log it, compute it in one step of many.

## Thresholds
It must cover half of the trained numbers: else it may be meant for some weights alone, which a
parameter group of the optimizer's own can do as well. The backward pass takes `BACK_LOW` to
`BACK_HIGH` of the forward pass's time, measured (docs/adr/0031). A fifth more or less goes with it.
Severity: the common scale (`findings/grade.py`).
"""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.savings.hidden import around
from lightning_gpuprof.findings.grade import by_host, grade
from lightning_gpuprof.findings.looked import looked
from lightning_gpuprof.findings.model import Effort, Finding, Horizon
from lightning_gpuprof.findings.places import in_forward
from lightning_gpuprof.records.function_calls import FunctionNotes, Penalty
from lightning_gpuprof.units import duration

ID = "penalty-in-loss"
EFFORT = Effort(Horizon.QUICK, "one argument of the optimizer", "AdamW's decay is another one")
BACK_LOW, BACK_HIGH = 1.0, 3.0
SAME = ("SGD", "Adam", "NAdam", "RAdam", "Adagrad", "RMSprop")
"""Their `weight_decay` is added to the gradient, as the penalty's is."""


@looked(ID)
def evaluate(run: RunResults, step_ns: int, seen: FunctionNotes) -> Finding | None:
    """Return a finding where weights are squared and added up in the loss."""
    return None if seen.penalty is None else _finding(run, step_ns, seen.penalty)


def _finding(run: RunResults, step_ns: int, one: Penalty) -> Finding:
    low, _ = around(round((1 + BACK_LOW) * one.taken_ns))
    _, high = around(round((1 + BACK_HIGH) * one.taken_ns))
    saving = by_host(low, high, step_ns, unsure=run.on_gpu)
    return Finding(
        id=ID,
        severity=grade(saving, step_ns),
        title=f"The loss squares and adds up {one.numbers:,} weights: {duration(one.taken_ns)} of "
        "the forward pass, and about as much of the backward pass",
        advice="Let the optimizer do it: weight_decay of SGD and Adam adds the same to the "
        "gradient (that of AdamW is a different decay, often a better one).",
        evidence={
            "penalty_ns": one.taken_ns,
            "weights_count": one.numbers,
            "step_ns": step_ns,
        },
        saving_ns=saving,
        confidence=0.5 if run.on_gpu else 0.8,
        where=in_forward(one.places),
        change=_change(run),
    )


def _change(run: RunResults) -> str | None:
    optimizers = run.start.model.get("optimizers")
    name = optimizers[0].get("class") if optimizers else None
    code = f"torch.optim.{name}(self.parameters(), ..., weight_decay=factor)\n# "
    if name == "AdamW":
        return f"{code}not the penalty's decay: choose the factor anew"
    if name not in SAME:
        return None
    return f"{code}for factor / 2 * (sum of squares); of some weights alone: in a group of theirs"
