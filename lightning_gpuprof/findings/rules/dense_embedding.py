"""All rows of an embedding table are updated for the few that a batch looks up.

## What it measures
`looked_up_frac`: how many indices a batch gives to an embedding table, of the table's rows, in one
of the run's first batches; and `dense_ns`: what the table's dense gradient takes per step, from the
time of the optimizer's step by the table's share of all weights, and from a trace
(`aten::embedding_dense_backward`).

## Why it matters
The gradient of a table is as large as the table: it is filled with zeros, and the optimizer reads
and writes every row of weights, gradient and moments, though all but a few gradients are zero.

## What to do
`nn.Embedding(..., sparse=True)`: the gradient holds the batch's rows alone. `Adagrad` and plain
`SGD` take it as it is (not with `fused=True`) and compute the same; for `Adam` there is
`SparseAdam`, whose moments of a row change when the row is touched.

## Thresholds
`MOST_FRAC`: a sparse gradient sorts and adds up its rows, each of which costs several times what
it does in a dense pass (`SPARSE`, a bound); from there on little would be left to save. Handling a
sparse gradient takes operators of its own, `OVER_LOW_NS` to `OVER_HIGH_NS` per table. A fifth more
or less may go with the cost (docs/adr/0031). A weight that another layer shares has a dense
gradient anyway, and sparse ones cannot be clipped by the Trainer, decayed or given momentum:
nothing is said. On a GPU the host's time of the optimizer is not the device's: the low bound is 0.
Severity: the common scale (`findings/grade.py`).
"""

from typing import Any

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.trace_facts import trace_facts
from lightning_gpuprof.analysis.savings.hidden import around
from lightning_gpuprof.analysis.savings.host_work import parameter_tensors
from lightning_gpuprof.findings.grade import grade
from lightning_gpuprof.findings.model import Abstained, Effort, Finding, Horizon, Range, Where
from lightning_gpuprof.findings.places import in_forward
from lightning_gpuprof.findings.rules import unfused_optimizer
from lightning_gpuprof.findings.rules.unfused_optimizer import UNFUSED_NS
from lightning_gpuprof.records.module_calls import EmbeddingUse, embedding_use
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.units import duration, percent

ID = "dense-embedding"
EFFORT = Effort(
    Horizon.QUICK,
    "one argument, for Adam a second optimizer",
    "none with Adagrad and plain SGD; Adam's moments change where rows are touched",
)
MOST_FRAC = 0.1
SPARSE = 5
OVER_LOW_NS, OVER_HIGH_NS = 50_000, 300_000
BACKWARD = "aten::embedding_dense_backward"
SAME = ("Adagrad", "SGD")
OWN_OPTIMIZER = (
    " They take an optimizer of their own, such as SparseAdam, and with it manual optimization."
)
MOST_NAMES = 3
EXPLAINS = ("unfused-optimizer",)
"""Most of the update is of the table, and fused ones take no sparse gradients: one or the other. Of
two the one stays that surely saves something."""


def evaluate(run: RunResults) -> Finding | Abstained | None:
    """Return a finding where tables are updated whole."""
    step, step_ns = run.per_step(Phase.OPTIMIZER_STEP), run.step_ns
    tables = [one for one in embedding_use(run.notes) if one.looked_up < MOST_FRAC * one.rows]
    numbers = run.start.model.get("parameters")
    if step is None or step_ns is None or not isinstance(numbers, int) or not numbers:
        return Abstained(ID, "no step's optimizer was measured, or not how many weights it has")
    optimizers: list[dict[str, Any]] = run.start.model.get("optimizers") or []
    clips = run.start.trainer.get("gradient_clip_val")
    dense = any(one.get("weight_decay") or one.get("momentum") for one in optimizers)
    if not tables or clips or dense:
        return None
    held = sum(one.rows * one.width for one in tables)
    bulk_ns = max(0, step.mean_ns - UNFUSED_NS * (parameter_tensors(run) or 0))
    dense_ns = round(min(1.0, held / numbers) * bulk_ns) + _backward_ns(run)
    touched = sum(one.looked_up * one.width for one in tables) / held
    least, most = around(dense_ns)
    low = round((1 - SPARSE * touched) * least) - OVER_HIGH_NS * len(tables)
    high = round((1 - touched) * most) - OVER_LOW_NS * len(tables)
    saving = Range(low=0 if run.on_gpu else max(0, low), high=min(step_ns, max(0, high)))
    if not saving.high:
        return None
    fused = unfused_optimizer.evaluate(run) if not saving.low else None
    if isinstance(fused, Finding) and fused.saving_ns.low:
        return Abstained(ID, f"{fused.id} tells of the same time, and surely saves some of it")
    named = [f"self.{one.name}" for one in tables[:MOST_NAMES]]
    more = f" and {len(tables) - MOST_NAMES} more" if len(tables) > MOST_NAMES else ""
    names, sparse = ", ".join(named), [f"{name} = nn.Embedding(..., sparse=True)" for name in named]
    if more:
        sparse.append(f"#{more} in the same way")
    name = str(optimizers[0]["class"]) if optimizers else "The optimizer"
    return Finding(
        id=ID,
        severity=grade(saving, step_ns),
        title=f"{name} updates all {sum(one.rows for one in tables):,} rows of {names}{more}, of "
        f"which a batch looks up {sum(one.looked_up for one in tables):,}: {duration(dense_ns)} of "
        f"each step ({percent(dense_ns / step_ns)})",
        advice="Let the tables have sparse gradients, which hold the rows of the batch alone."
        + (f" {name} refuses them with fused=True." if name in SAME else OWN_OPTIMIZER),
        evidence={
            "dense_ns": dense_ns,
            "looked_up_frac": touched,
            "rows_count": sum(one.rows for one in tables),
            "step_ns": step_ns,
        },
        saving_ns=saving,
        confidence=0.5 if run.on_gpu else 0.8,
        where=(*_places(tables), Where(phase=Phase.OPTIMIZER_STEP.value)),
        change="\n".join(sparse) + ("" if name in SAME else "  # with torch.optim.SparseAdam"),
        explains=EXPLAINS,
    )


def _backward_ns(run: RunResults) -> int:
    facts = trace_facts(run)
    dense = facts.operators.get(BACKWARD) if facts is not None else None
    return round(dense.total_ns) if dense is not None else 0


def _places(tables: list[EmbeddingUse]) -> tuple[Where, ...]:
    return in_forward(dict.fromkeys(one.place for one in tables if one.place is not None))
