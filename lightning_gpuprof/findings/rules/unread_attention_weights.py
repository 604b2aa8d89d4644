"""Attention returns its weights, and nobody reads them.

## What it measures
Calls of `nn.MultiheadAttention` with `need_weights=True` (the default) whose second result the
calling function never reads (`x, _ = self.attention(...)`, `self.attention(...)[0]`). On a CPU
their tensors' copies were tried once with and once without weights, forward and backward:
`with_ns`, `without_ns`.

## Why it matters
With weights to return, attention is computed step by step: the scores of all pairs of positions are
written to memory, normalised, averaged over the heads, and kept for the backward pass. Without, one
fused operator (`scaled_dot_product_attention`) does it in pieces that fit the caches.

## What to do
`self.attention(q, k, v, need_weights=False)`. The result is the same but for the last digits.

## Thresholds
The saving is the difference of the trial, half of it to a fifth more (docs/adr/0031): copies in a
loop are warmer than a model's own. On a GPU nothing was tried, so no time is claimed; the memory is
known. Severity: the common scale (`findings/grade.py`).
"""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.savings.hidden import around
from lightning_gpuprof.findings.grade import grade
from lightning_gpuprof.findings.looked import looked
from lightning_gpuprof.findings.model import Effort, Finding, Horizon, Range
from lightning_gpuprof.findings.places import in_forward
from lightning_gpuprof.records.attention import UnreadWeights
from lightning_gpuprof.records.function_calls import FunctionNotes
from lightning_gpuprof.units import duration, size

ID = "unread-attention-weights"
EFFORT = Effort(Horizon.QUICK, "one argument", "results may differ in the last digits")
LOW_FRAC = 0.5


@looked(ID)
def evaluate(run: RunResults, step_ns: int, seen: FunctionNotes) -> Finding | None:
    """Return a finding where attention makes weights for nobody."""
    return None if seen.unread is None else _finding(step_ns, seen.unread)


def _finding(step_ns: int, one: UnreadWeights) -> Finding | None:
    evidence: dict[str, int | float] = {
        "calls_count": one.calls,
        "weights_bytes": one.weight_bytes,
        "step_ns": step_ns,
    }
    saving, less = Range(low=0, high=0), ""
    if one.with_ns is not None and one.without_ns is not None:
        gained_ns = one.with_ns - one.without_ns
        if gained_ns <= 0:
            return None
        evidence |= {"with_ns": one.with_ns, "without_ns": one.without_ns}
        _, high = around(gained_ns)
        saving = Range(low=round(LOW_FRAC * gained_ns), high=min(high, step_ns))
        less = f", and {duration(gained_ns)} more time than without, as a trial showed"
    return Finding(
        id=ID,
        severity=grade(saving, step_ns),
        title=f"Attention returns its weights {one.calls} times a step, but nothing reads them: "
        f"{size(one.weight_bytes)}{less}",
        advice="Call it with need_weights=False, which takes the fused operator.",
        evidence=evidence,
        saving_ns=saving,
        confidence=0.8,
        where=in_forward(one.places),
        change="output, _ = self.attention(query, key, value, need_weights=False)",
    )
