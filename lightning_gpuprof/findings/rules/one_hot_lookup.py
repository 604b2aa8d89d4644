"""Rows of zeros with a one are multiplied by weights, where a row of these could be looked up.

## What it measures
`made_ns` and `layer_ns`: host time per step of `one_hot`, of giving its rows another type, and of
the linear layer or product of matrices that they go into, in the forward pass of two of the run's
first batches.

## Why it matters
The rows hold as many numbers as there are classes, all of them written, multiplied and, for the
gradient, multiplied again, to pick one row of the weights each.

## What to do
`nn.Embedding`: its table is the layer's weight, transposed, its result the same. It is to begin as
the layer did: an embedding's own first values are many times larger.

## Thresholds
Only rows that keep their classes and numbers to the layer count: flattened, they are a sum of
several lookups, smoothed ones are none.
`MIN_FRAC`: of a few classes the rows cost hardly anything. Of making the rows `MADE` times goes
(none where something else needs them), of the layer, with its gradient, `LAYER` times: measured at
seven sizes from 30 to 20,000 classes (docs/adr/0031). On a GPU the host may be ahead: the low bound
is 0.
Severity: the common scale (`findings/grade.py`).
"""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.findings.grade import by_host, grade
from lightning_gpuprof.findings.looked import looked
from lightning_gpuprof.findings.model import Effort, Finding, Horizon
from lightning_gpuprof.findings.places import in_forward
from lightning_gpuprof.records.function_calls import FunctionNotes
from lightning_gpuprof.records.lookups import OneHotLookup
from lightning_gpuprof.units import duration, percent

ID = "one-hot-lookup"
EFFORT = Effort(
    Horizon.QUICK,
    "an embedding in place of a layer, begun as that one",
    "checkpoints name other weights; first values are drawn anew",
)
MIN_FRAC = 0.01
MADE, LAYER = (0.6, 1.2), (0.8, 2.6)
CHANGE = """table = nn.Embedding({classes}, {width})  # in __init__, in place of the layer
nn.init.uniform_(table.weight, -({classes}**-0.5), {classes}**-0.5)  # as nn.Linear begins
table(indices)  # in place of one_hot and the layer; where it had a bias, add one begun alike"""


@looked(ID)
def evaluate(run: RunResults, step_ns: int, seen: FunctionNotes) -> tuple[Finding, ...]:
    """Return a finding for each place where rows are multiplied."""
    least_ns = MIN_FRAC * step_ns
    return tuple(
        _finding(run, step_ns, one)
        for one in seen.lookups
        if one.made_ns + one.layer_ns >= least_ns
    )


def _finding(run: RunResults, step_ns: int, one: OneHotLookup) -> Finding:
    low, high = (
        round(made * one.made_ns + layer * one.layer_ns)
        for made, layer in zip(MADE, LAYER, strict=True)
    )
    saving = by_host(low, high, step_ns, unsure=run.on_gpu)
    took_ns = one.made_ns + one.layer_ns
    return Finding(
        id=ID,
        severity=grade(saving, step_ns),
        title=f"{one.indices} rows of {one.classes} zeros and ones pick rows of weights: "
        f"{duration(took_ns)} of the forward pass ({percent(took_ns / step_ns)} of the step)",
        advice="Look the rows up: an nn.Embedding gives what one_hot and a linear layer give.",
        evidence={
            "made_ns": one.made_ns,
            "layer_ns": one.layer_ns,
            "classes_count": one.classes,
            "rows_count": one.indices,
            "step_ns": step_ns,
        },
        saving_ns=saving,
        confidence=0.5 if run.on_gpu else 0.9,
        where=in_forward(one.places),
        change=CHANGE.format(classes=one.classes, width=one.width),
    )
