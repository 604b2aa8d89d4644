"""Gradients are filled with zeros instead of being dropped.

## What it measures
`zero_grad_ns`: time per step in `optimizer_zero_grad`. Filling takes as long in every step: where
most steps zero gradients and the middle one takes less than the mean, the rest is something else
that a few steps met there.

## Why it matters
Filling every gradient with zeros writes as many numbers as the model has, with an operator for each
tensor; then the backward pass reads them and adds its own instead of just putting it there. Dropped
gradients (`set_to_none=True`, torch's default) cost neither.

## What to do
`optimizer.zero_grad()` without `set_to_none=False`, and no loop that zeroes gradients by hand. Code
that reads a gradient must take None for zero.

## Thresholds
`MIN_FRAC` of the step: dropping takes a few microseconds for each tensor (`DROP_NS`), which stays.
`USUAL_NS` is the hook around it. `BACK_FRAC`: adding to zeros takes up to as long as filling with
them, on top. On a GPU the host's clock gives no low bound. Severity: the common
scale (`findings/grade.py`).
"""

from lightning_gpuprof.analysis.run.host_lines import host_lines
from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.savings.hidden import around
from lightning_gpuprof.analysis.savings.host_work import parameter_tensors
from lightning_gpuprof.findings.grade import grade
from lightning_gpuprof.findings.model import Abstained, Effort, Finding, Horizon, Range, Where
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.units import duration, percent

ID = "zeroed-gradients"
EFFORT = Effort(Horizon.QUICK, "one argument", "a gradient that is not needed is None, not zero")
MIN_FRAC = 0.03
USUAL_NS, DROP_NS = 300_000, 3_000
BACK_FRAC = 1.0
MOST_STEPS = 0.5
"""In more steps than this gradients are zeroed: then the median is of such steps."""


def evaluate(run: RunResults) -> Finding | Abstained | None:
    """Return a finding where zeroing gradients takes more than dropping them would."""
    spent, step_ns = run.per_step(Phase.ZERO_GRAD), run.step_ns
    tensors = parameter_tensors(run)
    if spent is None or step_ns is None or tensors is None:
        return Abstained(ID, "zeroing gradients was not measured")
    each_ns = spent.mean_ns
    if spent.active_frac > MOST_STEPS:
        each_ns = min(each_ns, spent.median_ns)
    zero_ns = each_ns - USUAL_NS - DROP_NS * tensors
    if zero_ns < MIN_FRAC * step_ns:
        return None
    low, _ = around(zero_ns)
    _, high = around(round((1 + BACK_FRAC) * (zero_ns + USUAL_NS)))
    saving = Range(low=0 if run.on_gpu else low, high=min(high, step_ns))
    return Finding(
        id=ID,
        severity=grade(saving, step_ns),
        title=f"Zeroing gradients takes {duration(each_ns)} of each step "
        f"({percent(each_ns / step_ns)})",
        advice="Drop them: optimizer.zero_grad() with its default, set_to_none=True.",
        evidence={"zero_grad_ns": each_ns, "step_ns": step_ns},
        saving_ns=saving,
        confidence=0.5 if run.on_gpu else 0.7,
        where=(*_lines(run), Where(phase=Phase.ZERO_GRAD.value)),
        change="optimizer.zero_grad(set_to_none=True)",
    )


def _lines(run: RunResults) -> tuple[Where, ...]:
    lines = host_lines(run.notes)
    seen = lines.of(Phase.ZERO_GRAD)[:1] if lines is not None else []
    return tuple(Where.at(one, phase=one.phase) for one in seen)
