"""What each pair of rows gives is written out by broadcasting, and then summed up.

## What it measures
In the forward pass of one of the run's first batches, `broadcast_ns`: what functions take that
write out the difference or product of every row of one tensor with every row of another
(`wide_bytes`, at least four times either), by element, and those that make of it squares or
absolute values and sum them up over what both have: distances, similarities, attention by hand.

## Why it matters
The memory between is as much larger than the result as there are numbers in a row, each function
goes through all of it, and for the backward pass it is kept. A product of matrices gives the same
sums without ever writing it out.

## What to do
`torch.cdist` for distances, a product of matrices (`a @ b.mT`, `torch.einsum`) for sums of
products, and with it |a|^2 + |b|^2 - 2ab for squared distances.

## Thresholds
Nothing is said where more is done with what is written out (a direction, a network by pair), for
then it is needed. `MIN_FRAC`: below it nobody would change a model. The saving is `TRAINED` times
what was timed where gradients go back through it (`PRODUCTS` of products, whose way back is longer
than the two functions forward), `ALONE` else, for absolute differences from `ABSOLUTE` of that on:
from times of both forms, with 3 to 64 numbers per row (docs/adr/0031). More goes than was timed,
for what is written out drives all else from the caches. On a GPU the functions are launched in that
time, and how long the device is at them was not measured: no saving is claimed.
Severity: the common scale (`findings/grade.py`).
"""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.findings.grade import by_host, grade
from lightning_gpuprof.findings.looked import looked
from lightning_gpuprof.findings.model import Effort, Finding, Horizon, Range
from lightning_gpuprof.findings.places import in_forward
from lightning_gpuprof.records.function_calls import Broadcast, FunctionNotes
from lightning_gpuprof.units import duration, percent, size

ID = "broadcast-pairs"
EFFORT = Effort(Horizon.QUICK, "one line", "last digits differ, more of them for close points")
MIN_FRAC = 0.01
TRAINED = (1.6, 5.0)
PRODUCTS = (1.8, 7.0)
ALONE = (0.7, 2.2)
ABSOLUTE = 0.5
_FORMS = (
    (
        "squares",
        "Squared distances",
        "squares = a.square().sum(-1, keepdim=True) + b.square().sum(-1).unsqueeze(-2)\n"
        "squares = (squares - 2 * a @ b.mT).clamp_min(0)",
    ),
    ("distance", "Distances", "torch.cdist(a, b)"),
    ("absolute", "Absolute differences", "torch.cdist(a, b, p=1)"),
    ("product", "Products", 'torch.einsum("...nd,...md->...nm", a, b)  # or a @ b.mT'),
    ("cosine", "Cosines", "F.normalize(a, dim=-1) @ F.normalize(b, dim=-1).mT"),
)
CHANGES = {kind: (what, change) for kind, what, change in _FORMS}


@looked(ID)
def evaluate(run: RunResults, step_ns: int, seen: FunctionNotes) -> tuple[Finding, ...]:
    """Return a finding for each place where pairs are written out."""
    least_ns = MIN_FRAC * step_ns
    return tuple(
        _finding(run, step_ns, one)
        for one in seen.broadcast
        if one.taken_ns >= least_ns and one.kind in CHANGES
    )


def _finding(run: RunResults, step_ns: int, one: Broadcast) -> Finding:
    what, change = CHANGES[one.kind]
    low, high = TRAINED if one.trained else ALONE
    if one.kind == "product" and one.trained:
        low, high = PRODUCTS
    if one.kind == "absolute":
        low *= ABSOLUTE
    low_ns, high_ns = round(low * one.taken_ns), round(high * one.taken_ns)
    saving, took = saved_of(run, step_ns, one.taken_ns, low_ns, high_ns)
    return Finding(
        id=ID,
        severity=grade(saving, step_ns),
        title=f"{what} of all pairs are written to memory before they are summed up: "
        f"{size(one.wide_bytes)} from {size(one.given_bytes)}, {took}",
        advice="Let a product of matrices sum them up: a and b are the two tensors before "
        "unsqueeze or None made them broadcast. A mean is the sum divided by the row's length.",
        evidence={
            "broadcast_ns": one.taken_ns,
            "calls_count": one.calls,
            "wide_bytes": one.wide_bytes,
            "given_bytes": one.given_bytes,
            "summed_count": one.summed,
            "step_ns": step_ns,
        },
        saving_ns=saving,
        confidence=0.5 if run.on_gpu else 0.8,
        where=in_forward(one.places),
        change=change,
    )


def saved_of(
    run: RunResults, step_ns: int, taken_ns: int, low_ns: int, high_ns: int
) -> tuple[Range, str]:
    """Return what is saved of functions that were timed by the host, and how to say what they took.

    Nothing on a GPU: there the time is that of launching them.
    """
    if run.on_gpu:
        took = f"launched in {duration(taken_ns)}; the device's time was not measured"
        return Range(low=0, high=0), took
    took = f"{duration(taken_ns)} of the forward pass ({percent(taken_ns / step_ns)} of the step)"
    return by_host(low_ns, high_ns, step_ns, unsure=False), took
