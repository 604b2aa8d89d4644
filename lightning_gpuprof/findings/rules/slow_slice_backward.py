"""A tensor is indexed slice after slice, and each slice's gradient is as large as the whole.

## What it measures
Lines that take parts of one tensor by numbers (`x[:, t]`, `x[:, t:u]`, `select`, `narrow`) at least
four times in each of two of the first batches, no place twice, where a gradient goes back. On a CPU
`with_ns` and `without_ns`: forward and backward pass of such parts of zeros of that size, tried
once as they are and once made by one `unbind` or `split`. On a GPU `slice_backward_ns`: device time
of their nodes (`SelectBackward0`, `SliceBackward0`), from a trace.

## Why it matters
The gradient of a slice is a tensor of zeros as large as what it was taken of, with the slice's
gradient written into it, and those of all slices are added up: for a sequence of n steps n tensors
of its whole size are filled and added, so that the cost grows with the square of the length.

## What to do
Take the tensor apart once: `for step in x.unbind(1):`, or `x.split(...)` for wider parts. Their
gradient is put together once.

## Thresholds
`MIN_FRAC`: less is hardly worth a change. The saving is the difference of the trial, `LOW_FRAC` to
`HIGH_FRAC` of it: in nine programs 0.37 to 0.95 went with the callback in both runs, and 0 to 1.9
without it, where memory was handed out anew for each (`page-faults`, docs/adr/0031). On a GPU at
least that share of the nodes' device time, in steps that the device holds up (`savings/hidden.py`).
Where a loop's turns can be done at once `host-bound` says so, and the slices go with them.
Severity: the common scale (`findings/grade.py`).
"""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.trace_facts import trace_facts
from lightning_gpuprof.analysis.savings.hidden import faster_kernels
from lightning_gpuprof.analysis.trace.repeated_nodes import ENGINE
from lightning_gpuprof.findings.grade import grade
from lightning_gpuprof.findings.looked import looked
from lightning_gpuprof.findings.model import Effort, Finding, Horizon, Range
from lightning_gpuprof.findings.places import in_forward
from lightning_gpuprof.records.function_calls import FunctionNotes
from lightning_gpuprof.records.slices import TakenApart
from lightning_gpuprof.units import duration, percent

ID = "slow-slice-backward"
EFFORT = Effort(Horizon.QUICK, "one call in place of the indexing", "none")
MIN_FRAC = 0.01
LOW_FRAC, HIGH_FRAC = 0.35, 1.4
NODES = (f"{ENGINE}SelectBackward0", f"{ENGINE}SliceBackward0")
UNBOUND = "for part in x.unbind({dim}):  # in place of x[{places}], for each i"
SPLIT = "parts = x.split(sizes, {dim})  # in place of x[{places}], for each part"


@looked(ID)
def evaluate(run: RunResults, step_ns: int, seen: FunctionNotes) -> tuple[Finding, ...]:
    """Return a finding for each line whose slices cost more than taking the tensor apart once."""
    found = (_finding(run, step_ns, one, seen) for one in seen.apart)
    return tuple(one for one in found if one is not None)


def _finding(run: RunResults, step_ns: int, one: TakenApart, seen: FunctionNotes) -> Finding | None:
    evidence: dict[str, int | float] = {
        "slices_count": one.slices,
        "numbers_count": one.numbers,
        "step_ns": step_ns,
    }
    if one.with_ns is not None and one.without_ns is not None:
        cost_ns = one.with_ns - one.without_ns
        evidence |= {"with_ns": one.with_ns, "without_ns": one.without_ns}
        low, high = LOW_FRAC * cost_ns, min(HIGH_FRAC * cost_ns, step_ns)
    else:
        cost_ns = round(_device_ns(run) * _share(one, seen))
        evidence["slice_backward_ns"] = cost_ns
        low, high = faster_kernels(run, step_ns, LOW_FRAC * cost_ns, cost_ns)
    if cost_ns < MIN_FRAC * step_ns:
        return None
    saving = Range(low=round(low), high=round(high))
    places = ":, " * one.dim + ("i" if one.single else "i:j")
    what = "a tensor" if one.tensors == 1 else f"{one.tensors} tensors"
    return Finding(
        id=ID,
        severity=grade(saving, step_ns),
        title=f"{one.slices} slices are taken of {what} one by one, and the gradient of each is as "
        f"large as the whole: {duration(cost_ns)} ({percent(cost_ns / step_ns)} of the step)",
        advice="Take the tensor apart once, before the loop: the gradient of unbind (or split) is "
        "put together in one piece, those of slices are tensors of zeros that are added up.",
        evidence=evidence,
        saving_ns=saving,
        confidence=0.8,
        where=in_forward(one.places),
        change=(UNBOUND if one.single else SPLIT).format(dim=one.dim, places=places),
    )


def _device_ns(run: RunResults) -> float:
    """Return device time per step of the slices' nodes and what adds their gradients up."""
    facts = trace_facts(run)
    operators = {} if facts is None else facts.operators
    return sum(operators[name].device_total_ns or 0.0 for name in NODES if name in operators)


def _share(one: TakenApart, seen: FunctionNotes) -> float:
    """Return a line's share of what is filled and added for slices."""
    filled = sum(each.slices * each.numbers for each in seen.apart)
    return one.slices * one.numbers / max(1, filled)
