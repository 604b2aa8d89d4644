"""What belongs together is summed by a product with rows of zeros and ones, one row for each part.

## What it measures
`made_ns` and `sum_ns`: host time per step of making such rows (`one_hot`, or a comparison with
0, 1, 2, ...), of giving them another type, and of the products (`rows.T @ x`, `einsum`) that sum
with them, in the forward pass of two of the run's first batches.

## Why it matters
The rows hold as many numbers as there are sums, for each part. All of them are written, multiplied
and, for the gradient, multiplied again, though but one of each row adds anything: sums of messages
at the nodes of a graph, of pixels in a segment, of rows of a class.

## What to do
`index_add` (or `scatter_add`, `scatter_reduce` for means and greatest values): it adds each part
where it belongs, and its gradient is a lookup.

## Thresholds
`MIN_FRAC`: of a few sums and parts the rows cost hardly anything. Of making the rows `MADE` times
goes (none where something else needs them), of the products `SUMMED` times with their gradient and
`ALONE` times without one: measured at ten sizes from 10 to 2,000 sums (docs/adr/0031).
`MIN_CLASSES`: 10 sums took as long by either way. On a GPU the host may be ahead: the low bound is
0. Severity: the common scale (`findings/grade.py`).
"""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.findings.grade import by_host, grade
from lightning_gpuprof.findings.looked import looked
from lightning_gpuprof.findings.model import Effort, Finding, Horizon
from lightning_gpuprof.findings.places import in_forward
from lightning_gpuprof.records.function_calls import FunctionNotes
from lightning_gpuprof.records.lookups import OneHotSum
from lightning_gpuprof.units import duration, percent

ID = "one-hot-sum"
EFFORT = Effort(
    Horizon.QUICK,
    "one line in place of two",
    "sums are added in another order; on a GPU not always in the same one",
)
MIN_FRAC = 0.01
MIN_CLASSES = 16
MADE, SUMMED, ALONE = (0.6, 1.2), (0.8, 2.6), (0.5, 1.2)
CHANGE = """# in place of one_hot and the product; x: one row for each index, and {classes} sums
sums = x.new_zeros({classes}, *x.shape[1:]).index_add(0, index, x)
# or, of each sample by itself (x: samples, rows, numbers; index: samples, rows):
at = index[..., None].expand_as(x)
sums = x.new_zeros(len(x), {classes}, x.shape[2]).scatter_add(1, at, x)"""


@looked(ID)
def evaluate(run: RunResults, step_ns: int, seen: FunctionNotes) -> tuple[Finding, ...]:
    """Return a finding for each place where such a product sums."""
    least_ns = MIN_FRAC * step_ns
    return tuple(
        _finding(run, step_ns, one)
        for one in seen.sums
        if one.classes >= MIN_CLASSES and one.made_ns + one.sum_ns >= least_ns
    )


def _finding(run: RunResults, step_ns: int, one: OneHotSum) -> Finding:
    low, high = (
        round(made * one.made_ns + summed * one.sum_ns)
        for made, summed in zip(MADE, SUMMED if one.trained else ALONE, strict=True)
    )
    saving = by_host(low, high, step_ns, unsure=run.on_gpu)
    took_ns = one.made_ns + one.sum_ns
    return Finding(
        id=ID,
        severity=grade(saving, step_ns),
        title=f"{one.summed} rows of {one.classes} zeros and ones sum what belongs together: "
        f"{duration(took_ns)} of the forward pass ({percent(took_ns / step_ns)} of the step)",
        advice="Add each part where it belongs: index_add (or scatter_add) gives what the product "
        "with one-hot rows gives, and its gradient is a lookup.",
        evidence={
            "made_ns": one.made_ns,
            "sum_ns": one.sum_ns,
            "classes_count": one.classes,
            "rows_count": one.summed,
            "step_ns": step_ns,
        },
        saving_ns=saving,
        confidence=0.5 if run.on_gpu else 0.9,
        where=in_forward(one.places),
        change=CHANGE.format(classes=one.classes),
    )
