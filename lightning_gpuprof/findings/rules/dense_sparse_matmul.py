"""A matrix that is nearly all zeros is multiplied as a dense one.

## What it measures
Products (`A @ x`) whose first factor gets no gradient, is the same tensor in two of the run's first
batches and has at most a tenth of numbers that are not 0 (`nonzero_frac`): a graph's adjacency, an
incidence, a selection of rows. `dense_ns`: what they took in a trial with matrices of that size,
forward and, where gradients go back, backward; `sparse_ns`: the same with a sparse tensor of as
many numbers, in the faster layout of `csr` and `coo`.

## Why it matters
A dense product reads and multiplies every zero, in the forward pass and again for the gradient, and
the matrix drives everything else out of the caches.

## What to do
Keep the matrix as a sparse tensor, made once: `A.to_sparse_csr()` (or `A.to_sparse()`); `A @ x` is
written as before.

## Thresholds
`MIN_FRAC`: less is hardly worth a change. `LOW_FRAC` to `HIGH_FRAC` of the trial's difference: in
training the caches hold other things, and where the numbers lie matters to a sparse product
(docs/adr/0031). On a CPU alone: to count a device's zeros would make the host wait. Severity: the
common scale (`findings/grade.py`).
"""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.findings.grade import by_host, grade
from lightning_gpuprof.findings.looked import looked
from lightning_gpuprof.findings.model import Effort, Finding, Horizon
from lightning_gpuprof.findings.places import in_forward
from lightning_gpuprof.records.function_calls import FunctionNotes
from lightning_gpuprof.records.sparse_products import SparseProduct
from lightning_gpuprof.units import duration, percent

ID = "dense-sparse-matmul"
EFFORT = Effort(Horizon.QUICK, "one line where the matrix is made", "sums in another order")
MIN_FRAC = 0.01
LOW_FRAC, HIGH_FRAC = 0.6, 1.4
CHANGE = "A = A.{made}()  # once, where it is made; A @ x stays as it is"


@looked(ID)
def evaluate(run: RunResults, step_ns: int, seen: FunctionNotes) -> tuple[Finding, ...]:
    """Return a finding for each line whose product is quicker with a sparse tensor."""
    least_ns = MIN_FRAC * step_ns
    return tuple(
        _finding(run, step_ns, one)
        for one in seen.products
        if one.dense_ns - one.sparse_ns >= least_ns
    )


def _finding(run: RunResults, step_ns: int, one: SparseProduct) -> Finding:
    gone_ns = one.dense_ns - one.sparse_ns
    saving = by_host(
        round(LOW_FRAC * gone_ns), round(HIGH_FRAC * gone_ns), step_ns, unsure=run.on_gpu
    )
    size = " x ".join(f"{length:,}" for length in one.shape)
    return Finding(
        id=ID,
        severity=grade(saving, step_ns),
        title=f"A matrix of {size}, {percent(1 - one.nonzero_frac)} of it zeros, is multiplied as "
        f"a dense one: {duration(gone_ns)} ({percent(gone_ns / step_ns)} of the step) more than as "
        "a sparse one, as a trial showed",
        advice="Keep it as a sparse tensor, made once: the product is written as before, and zeros "
        "are neither read nor multiplied, forward or backward.",
        evidence={
            "dense_ns": one.dense_ns,
            "sparse_ns": one.sparse_ns,
            "forward_ns": one.taken_ns,
            "nonzero_frac": one.nonzero_frac,
            "calls_count": one.calls,
            "step_ns": step_ns,
        },
        saving_ns=saving,
        confidence=0.8,
        where=in_forward(one.places),
        change=CHANGE.format(made="to_sparse_csr" if one.layout == "csr" else "to_sparse"),
    )
