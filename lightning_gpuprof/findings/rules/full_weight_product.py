"""Layers multiply thin factors into a full weight matrix, and then by it.

## What it measures
In the forward pass of one of the run's first batches: the products of two trained factors that are
at least twice as large as either (`product_ns`), what is done to tensors of that size beside it, as
scaling and adding to a frozen weight (`around_ns`), and the layers that are given such a weight
(`layer_ns`).

## Why it matters
`x @ (W + B @ A).T` makes a matrix as large as `W` in every step. Worse is its gradient: the
backward pass computes that of the full matrix, as much work as the layer itself, though only the
factors are trained.

## What to do
`linear(x, W) + linear(linear(x, A), B)`: two thin products. The result is the same but for the last
digits. Merge the factors into the weight for inference only.

## Thresholds
Where a trained tensor of that size is added, its gradient is needed anyway: nothing is said. The
layer's weight gradient takes about as long as its forward pass, less what the thin products take
(three passes of `thin_frac`, the factors' numbers as a share of the matrix's); a product's backward
pass takes twice its forward pass's time, what is around it once. From `LOW` to `HIGH` of that
(docs/adr/0031). Severity: the common scale (`findings/grade.py`).
"""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.findings.grade import by_host, grade
from lightning_gpuprof.findings.looked import looked
from lightning_gpuprof.findings.model import Effort, Finding, Horizon
from lightning_gpuprof.findings.places import in_forward
from lightning_gpuprof.records.function_calls import BuiltWeight, FunctionNotes
from lightning_gpuprof.units import duration

ID = "full-weight-product"
EFFORT = Effort(Horizon.QUICK, "two products in the place of one", "only last digits differ")
LOW, HIGH = 0.35, 0.95


@looked(ID)
def evaluate(run: RunResults, step_ns: int, seen: FunctionNotes) -> Finding | None:
    """Return a finding where factors are multiplied into a full weight."""
    return None if seen.built is None else _finding(run, step_ns, seen.built)


def _finding(run: RunResults, step_ns: int, one: BuiltWeight) -> Finding | None:
    layers_ns = one.layer_ns * (1 - 3 * one.thin_frac)
    gone_ns = layers_ns + 3 * one.product_ns + 2 * one.around_ns
    if gone_ns <= 0:
        return None
    low, high = round(LOW * gone_ns), round(HIGH * gone_ns)
    saving = by_host(low, high, step_ns, unsure=run.on_gpu)
    return Finding(
        id=ID,
        severity=grade(saving, step_ns),
        title=f"{one.layers} layers multiply low-rank factors into a full weight matrix in "
        f"every step: {duration(one.product_ns + one.around_ns)}, and the whole matrix's gradient",
        advice="Apply the factors to the input one after the other: linear(linear(x, A), B). Then "
        "no gradient of a full matrix is computed.",
        evidence={
            "product_ns": one.product_ns,
            "around_ns": one.around_ns,
            "layers_ns": one.layer_ns,
            "thin_frac": one.thin_frac,
            "step_ns": step_ns,
        },
        saving_ns=saving,
        confidence=0.5 if run.on_gpu else 0.8,
        where=in_forward(one.places),
        change="y = F.linear(x, weight) + scale * F.linear(F.linear(x, a), b)\n"
        "# not F.linear(x, weight + scale * (b @ a))",
    )
