"""Values are looked up by comparing each of them with all of a tensor's.

## What it measures
In the forward pass of two of the run's first batches, `compare_ns`: what functions take that
compare every value of one tensor with every value of another (`a[:, None] == b`, four times the
numbers of either at least), and those that make of it whether one is there (`any`), where it is
(`argmax`, `nonzero`) or how many are (`sum`); of comparisons by size how many alone.

## Why it matters
The work and the memory between grow with both sizes multiplied. In sorted values each is found in
as many steps as their number has binary digits.

## What to do
Sort the values once, before training where they stay the same, and look up in them:
`torch.searchsorted` (of edges of bins: `torch.bucketize`), or `torch.isin` for whether it is there.
What need not be looked up in every step (filtering drawn examples), do seldom or not at all.

## Thresholds
Nothing is said where anything else is done with the comparisons, for a mask is needed as it is, nor
where each sample has values of its own to be looked up in.
`MIN_FRAC`: below it nobody would change a program. `ALONE` (`rules/broadcast_pairs.py`): as of what
else is written out for all pairs, more goes than was timed. `SORT_NS`: what `torch.isin` takes for
each value of both, 20 to 52 ns, is taken off in the low bound: where the values stay the same, and
are sorted once, a hundredth of it is left (docs/adr/0031). On a GPU the functions are launched in
that time, and how long the device is at them was not measured: no saving is claimed. Severity: the
common scale (`findings/grade.py`).
"""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.findings.grade import grade
from lightning_gpuprof.findings.looked import looked
from lightning_gpuprof.findings.model import Effort, Finding, Horizon
from lightning_gpuprof.findings.places import in_forward
from lightning_gpuprof.findings.rules.broadcast_pairs import ALONE, saved_of
from lightning_gpuprof.records.function_calls import FunctionNotes
from lightning_gpuprof.records.lookups import Compared

ID = "brute-force-lookup"
EFFORT = Effort(
    Horizon.QUICK, "a few lines", "none where the values are sorted anew if they change"
)
MIN_FRAC = 0.01
SORT_NS = 50
_SORTED = "known, order = b.sort(stable=True)  # once, where b stays the same\n"
_FOUND = "at = torch.searchsorted(known, a).clamp(max=len(known) - 1)\nfound = known[at] == a"
_CHANGES = dict(
    any="found = torch.isin(a, b)\n# or, faster where b stays the same:\n" + _SORTED + _FOUND,
    which=_SORTED + _FOUND + "\nat = order[at]  # the first place; of no meaning where not found",
    count="values, counts = b.unique(return_counts=True)  # once, where b stays the same\n"
    "at = torch.searchsorted(values, a).clamp(max=len(values) - 1)\n"
    "count = counts[at] * (values[at] == a)",
)
_BINS = "count = torch.searchsorted(b, a)  # of sorted b; right=True counts equal ones, too"
_WHAT = dict(any="whether it is there", which="where it is", count="how many there are")


@looked(ID)
def evaluate(run: RunResults, step_ns: int, seen: FunctionNotes) -> tuple[Finding, ...]:
    """Return a finding for each place where all are compared with all."""
    return tuple(
        _finding(run, step_ns, one)
        for one in seen.compared
        if one.taken_ns >= MIN_FRAC * step_ns and one.kind in _WHAT
    )


def _finding(run: RunResults, step_ns: int, one: Compared) -> Finding:
    values = one.compared // max(1, one.among)
    what = "how many are smaller or larger" if one.orders else _WHAT[one.kind]
    sort_ns = SORT_NS * (values + one.calls * one.among)
    low = max(0, round(ALONE[0] * one.taken_ns) - sort_ns)
    saving, took = saved_of(run, step_ns, one.taken_ns, low, round(ALONE[1] * one.taken_ns))
    return Finding(
        id=ID,
        severity=grade(saving, step_ns),
        title=f"{values:,} values are each compared with all {one.among:,} of a tensor to learn "
        f"{what}: {took}",
        advice="Look them up in sorted values instead: a are the values that are looked up, b "
        "those that each is compared with. Or look up seldom, if it need not be in every step.",
        evidence={
            "compare_ns": one.taken_ns,
            "calls_count": one.calls,
            "compared_count": one.compared,
            "among_count": one.among,
            "step_ns": step_ns,
        },
        saving_ns=saving,
        confidence=0.5 if run.on_gpu else 0.8,
        where=in_forward(one.places),
        change=_BINS if one.orders else _CHANGES[one.kind],
    )
