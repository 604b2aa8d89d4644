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
single copy per step is not a habit; of several, one may have to stay (the low bound). Kernels that
transpose around convolutions all go in channels_last, in steps that the device holds up
(`savings/hidden.py`). They show that the net lies plane after plane, where BatchNorm's own kernels
read their memory badly, too: in channels_last they took `NORM_LEAST` to `NORM_MOST` times what
their bytes take at the device's peak (docs/adr/0031), and what is above that goes. In a net without
such kernels `COPIES_OF_GROUPS` copies for each GroupNorm are torch's own: on a device it takes no
channels_last, and the next convolution nothing else. Severity: the common scale
(`findings/grade.py`).
"""

from dataclasses import replace

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.trace_facts import TraceFacts, trace_facts
from lightning_gpuprof.analysis.savings.hidden import around, faster_kernels
from lightning_gpuprof.findings.grade import grade
from lightning_gpuprof.findings.model import Abstained, Effort, Finding, Horizon, Range, Where
from lightning_gpuprof.findings.no_trace import OPERATORS, no_trace
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.units import duration, percent

ID = "non-contiguous-layout"
EFFORT = Effort(Horizon.MEDIUM, "shapes change in the model's code", "a wrong axis goes unnoticed")
BACKWARD = 2.0
MIN_CALLS = 2
LAYOUT_KERNELS = ("nchwToNhwc", "nhwcToNchw")
NORMS = "aten::native_batch_norm"
NORM_LEAST, NORM_MOST = 2.5, 6.1
COPIES_OF_GROUPS = 2
MOST = 2
CHANNELS_LAST = """model = model.to(memory_format=torch.channels_last)
images = images.to(memory_format=torch.channels_last)  # once, before the first layer"""
CHANNELS_LAST_ADVICE = (
    "The convolutions compute in channels_last, and change each of their tensors to it and back: "
    "keep model and input in it. BatchNorm, which goes over one channel after the other, "
    "is often faster in it, too."
)
EXPLAINS = ("memory-bound-kernels",)
"""What a fused kernel would save of kernels that are slow for their layout is not known."""


def evaluate(run: RunResults) -> Finding | Abstained | None:
    """Return a finding where changes of layout cost time."""
    facts = trace_facts(run)
    if run.step_ns is None or facts is None or not facts.rows("operators"):
        return no_trace(ID, OPERATORS)
    around_convolutions = [
        row
        for row in facts.rows("kernels")
        if any(kernel in str(row.get("name", "")) for kernel in LAYOUT_KERNELS)
    ]
    kernels_ns = sum(row.get("total_ns") or 0 for row in around_convolutions) / facts.steps
    calls, copied_ns = _copies(facts, planes=bool(kernels_ns))
    cost_ns = round(copied_ns + kernels_ns)
    if not cost_ns or (calls < MIN_CALLS and not kernels_ns):
        return None
    kept, norms_least, norms_most = 1 / calls if calls >= MIN_CALLS else 1.0, 0.0, 0.0
    least, most = (1 - kept) * copied_ns, BACKWARD * copied_ns
    saving = Range(around(round(least))[0], round(most))
    if kernels_ns:
        norms_least, norms_most = _by_planes(facts)
        least += kernels_ns + norms_least
        low, high = around(round(least))[0], most + around(round(kernels_ns))[1] + norms_most
        saving = Range(*faster_kernels(run, run.step_ns, low, high))
    saving = Range(low=min(saving.low, run.step_ns), high=min(saving.high, run.step_ns))
    if not saving.high:
        return None
    found = Finding(
        id=ID,
        severity=grade(saving, run.step_ns),
        title=f"{duration(cost_ns)} of each step ({percent(cost_ns / run.step_ns)}) only changes "
        "the layout of tensors",
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
    )
    if not kernels_ns:
        return found
    return replace(
        found,
        evidence={**found.evidence, "slow_norms_ns": round(norms_most)},
        title=f"{found.title}{_told_norms(norms_least, norms_most)}",
        advice=CHANNELS_LAST_ADVICE,
        where=tuple(Where(kernel=str(row["name"])) for row in around_convolutions[:MOST]),
        change=CHANNELS_LAST,
        explains=EXPLAINS,
    )


def _by_planes(facts: TraceFacts) -> tuple[float, float]:
    """Return the least and the most per step that normalising plane after plane costs."""
    least = most = 0.0
    for row in facts.rows("roofline"):
        if str(row.get("name", "")).startswith(NORMS) and row.get("peak_bytes_per_s"):
            moved = (row.get("num_bytes") or 0) * (row.get("count") or 0)
            bytes_ns = 1e9 * moved / row["peak_bytes_per_s"]
            least += max(0.0, row["total_ns"] - NORM_MOST * bytes_ns)
            most += max(0.0, row["total_ns"] - NORM_LEAST * bytes_ns)
    return least / facts.steps, most / facts.steps


def _told_norms(least_ns: float, most_ns: float) -> str:
    if not most_ns:
        return ""
    lost = f"up to {duration(most_ns)}"
    if least_ns:
        lost = f"{duration(least_ns)} to {duration(most_ns)}"
    return f", and normalising plane after plane loses {lost} more"


def _copies(facts: TraceFacts, *, planes: bool) -> tuple[float, float]:
    operators = facts.operators
    contiguous = operators.get("aten::contiguous")
    if contiguous is None:
        return 0.0, 0.0
    # Within `contiguous` a copy is one `clone`; calls that found nothing to do make none.
    # The gradient of a convolution copies what it was handed on its own account.
    calls = contiguous.calls - contiguous.backward_calls
    if not facts.on_device:
        return calls, contiguous.total_ns - contiguous.backward_ns
    groups = operators.get("aten::native_group_norm")
    if groups is not None and not planes:
        calls = max(0.0, calls - COPIES_OF_GROUPS * groups.calls)
    return calls, (contiguous.device_total_ns or 0.0) * calls / contiguous.calls
