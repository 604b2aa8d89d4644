"""Tensors are copied again and again to change their memory layout.

## What it measures
`relayout_ns`: time per step inside `aten::contiguous` and the copies that `aten::reshape` makes,
from a trace (device time on a GPU, host time on a CPU), and in kernels that only change layout
(`nchwToNhwc`).

## Why it matters
A transposed view is free; making it contiguous reads and writes all of its bytes and computes
nothing, and the backward pass does the same again.

## What to do
Keep one layout through the model: `channels_last` for convolutions, weights shaped so that no
transpose is needed, transposes done once when the data is made.

## Thresholds
`BACKWARD`: the gradient of each copy is a copy of equal size, in the high bound. `MIN_CALLS`: a
single copy per step is not a habit; of several, one may have to stay (the low bound). Severity: the
common scale (`findings/grade.py`).
"""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.trace_facts import TraceFacts, trace_facts
from lightning_gpuprof.analysis.savings.hidden import around
from lightning_gpuprof.findings.grade import grade
from lightning_gpuprof.findings.model import Abstained, Effort, Finding, Horizon, Range, Where
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.units import duration, percent

ID = "non-contiguous-layout"
EFFORT = Effort(Horizon.MEDIUM, "shapes change in the model's code", "a wrong axis goes unnoticed")
BACKWARD = 2.0
MIN_CALLS = 2
LAYOUT_KERNELS = ("nchwToNhwc", "nhwcToNchw")


def evaluate(run: RunResults) -> Finding | Abstained | None:
    """Return a finding where changes of layout cost time."""
    facts = trace_facts(run)
    if run.step_ns is None or facts is None or not facts.rows("operators"):
        return Abstained(ID, "it takes an analysed trace with operators, and there is none")
    calls, copied_ns = _copies(facts)
    kernels_ns = sum(
        row.get("total_ns") or 0
        for row in facts.rows("kernels")
        if str(row.get("name", "")).find(LAYOUT_KERNELS[0]) >= 0
        or str(row.get("name", "")).find(LAYOUT_KERNELS[1]) >= 0
    )
    cost_ns = round(copied_ns + kernels_ns / facts.steps)
    if not cost_ns or (calls < MIN_CALLS and not kernels_ns):
        return None
    kept = 1 / calls if calls >= MIN_CALLS else 0.5
    least, _ = around(round((1 - kept) * cost_ns))
    saving = Range(low=least, high=min(run.step_ns, round(BACKWARD * cost_ns)))
    change = None
    if kernels_ns:
        change = "model = model.to(memory_format=torch.channels_last)"
    return Finding(
        id=ID,
        severity=grade(saving, run.step_ns),
        title=f"{duration(cost_ns)} of each step ({percent(cost_ns / run.step_ns)}) only changes "
        f"the "
        "layout of tensors",
        advice="Keep one memory layout through the model: shape weights to fit the data instead of "
        "transposing activations, and transpose inputs once, where they are made.",
        evidence={
            "relayout_ns": cost_ns,
            "relayouts_per_step_count": round(calls),
            "step_ns": run.step_ns,
        },
        saving_ns=saving,
        confidence=0.6,
        where=(Where(phase=Phase.FORWARD.value, name="aten::contiguous"),),
        change=change,
    )


def _copies(facts: TraceFacts) -> tuple[float, float]:
    operators = facts.operators
    contiguous = operators.get("aten::contiguous")
    if contiguous is None:
        return 0.0, 0.0
    # Within `contiguous` a copy is one `clone`; calls that found nothing to do make none.
    # The gradient of a convolution copies what it was handed on its own account.
    calls = contiguous.calls - contiguous.backward_calls
    if facts.on_device:
        return calls, (contiguous.device_total_ns or 0.0) * calls / contiguous.calls
    return calls, contiguous.total_ns - contiguous.backward_ns
