"""The optimizer passes over a whole embedding table, of which a batch needs few rows.

## Symptom
Backward and the optimizer's step take long for a large `nn.Embedding`, whatever the batch.

## Why
The gradient of an embedding is dense by default: it has a row of zeros for every row of the table
that the batch did not use. Each step writes all of them, and the optimizer updates all rows and
their state.

## Fix
```python
nn.Embedding(220_000, 24)  # before
nn.Embedding(220_000, 24, sparse=True)  # after, with torch.optim.SparseAdam, Adagrad or SGD
```

`SparseAdam` takes the place of Adam for the table alone. With a second optimizer for the other
parameters, Lightning needs `automatic_optimization = False`. Adagrad and SGD take sparse and dense
gradients together, if they have no weight decay. A smaller table, of hashed or only of frequent
items, saves the same time with any optimizer.

## How it is measured
`used_rows_count` are the rows with a gradient after the first batch, of `rows_count`. `cause_ns` is
the optimizer's time per step times `table_frac`, the share of all parameters in rows that were not
used, and the time of `aten::embedding_dense_backward` in a trace.

## Limits
A fused optimizer makes the pass shorter, but still passes over the whole table. Adam and momentum
move rows that a batch did not use; `SparseAdam` does not, so training differs. Sparse gradients
cannot be clipped, and DDP exchanges them with gloo only.
"""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.settings import OptimizerFacts, settings_of
from lightning_gpuprof.analysis.run.trace_facts import trace_facts
from lightning_gpuprof.analysis.savings.hidden import around, faster_kernels
from lightning_gpuprof.findings.model import Effort, Finding, Horizon, Place, Range
from lightning_gpuprof.findings.rule import measured, rule
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.units import duration, percent, size

USED_FRAC = 0.25
"""With more rows in use, sparse updates cost about as much as one pass over all rows."""
MIN_TABLE_FRAC = 0.25
"""Where unused rows are less of all parameters, the optimizer's time goes to others."""
BACKWARD = "aten::embedding_dense_backward"
TAKE_BOTH = ("SGD", "Adagrad")
"""Optimizers that accept sparse and dense gradients together."""
EFFORT = Effort(
    Horizon.MEDIUM,
    "one argument of the embedding, and an optimizer that takes it",
    "rows that a batch does not use stay as they are; no gradient clipping",
)


@rule(id="dense-embedding", needs=("training", "steps", "model"), effort=EFFORT)
def judge(run: RunResults) -> Finding | None:
    """Return the finding about embedding tables whose unused rows are updated in every step."""
    step, settings = run.per_step(Phase.OPTIMIZER_STEP), settings_of(run.start)
    tables = [t for t in run.facts.embedding_tables if t.used_rows <= USED_FRAC * t.rows]
    if step is None or not tables or not settings.parameter_bytes:
        return None
    unused_bytes = sum(t.num_bytes * (1 - t.used_rows / t.rows) for t in tables)
    table_frac = min(1.0, unused_bytes / settings.parameter_bytes)
    if table_frac < MIN_TABLE_FRAC:
        return None
    step_ns = measured(run.step_ns)
    update_ns, backward_ns = round(table_frac * step.mean_ns), _backward_ns(run)
    cause_ns = update_ns + backward_ns
    saving = Range(*around(cause_ns, step_ns))
    if run.on_gpu:
        marks = run.device.time.phases.get(Phase.OPTIMIZER_STEP) if run.device.time else None
        device_ns = table_frac * (marks.mean_ns if marks else step.mean_ns)
        saving = Range(0, faster_kernels(run, step_ns, 0, device_ns + backward_ns)[1])
    main = max(tables, key=lambda table: table.num_bytes)
    optimizer = next(iter(settings.optimizers), OptimizerFacts("the optimizer"))
    return Finding(
        title=f"{main.name} uses {main.used_rows:,} of {main.rows:,} rows, and all are updated "
        f"({duration(update_ns)}, {percent(update_ns / step_ns)})",
        advice=_advice(optimizer, main.name, size(main.num_bytes)),
        evidence={
            "used_rows_count": sum(table.used_rows for table in tables),
            "rows_count": sum(table.rows for table in tables),
            "table_frac": table_frac,
            "optimizer_ns": step.mean_ns,
            "dense_backward_ns": backward_ns,
        },
        saving_ns=saving,
        cause_ns=Range(cause_ns, cause_ns),
        confidence=0.8,
        places=(Place(phase=Phase.OPTIMIZER_STEP.value),),
        change=f"nn.Embedding({main.rows}, {main.columns}, sparse=True)  # {main.name}",
        explains=("unfused-optimizer",),
    )


def _backward_ns(run: RunResults) -> int:
    """Return the time per step of the embeddings' dense backward pass; 0 without a trace."""
    facts = trace_facts(run)
    operator = facts.operators.get(BACKWARD) if facts else None
    if operator is None:
        return 0
    return round((operator.device_total_ns or 0) if run.on_gpu else operator.total_ns)


def _advice(optimizer: OptimizerFacts, table: str, table_size: str) -> str:
    text = f"The gradient of {table} is dense: {optimizer.name} passes over all {table_size} of it "
    text += "and its state in every step. Make it sparse (sparse=True)"
    if optimizer.name in TAKE_BOTH:
        text += f", which {optimizer.name} takes"
        text += " without weight decay." if optimizer.weight_decay else "."
    else:
        text += (
            " and give it an optimizer of its own, torch.optim.SparseAdam (two optimizers need "
            "automatic_optimization = False); or use Adagrad or SGD for all."
        )
    return f"{text} Or make the table smaller. fused=True still passes over all rows."
