"""Tensors are copied again and again to change their memory layout.

## Symptom
`aten::contiguous`, or kernels such as `nchwToNhwc`, take a noticeable share of the step.

## Why
A transposed view is free. Making it contiguous moves all of its bytes without computing anything,
and the backward pass does so again.

## Fix
Keep one layout: `channels_last` for convolutions, weights in a shape that needs no transpose, and
inputs that are transposed as they are made.

```python
images = images.contiguous()  # before
model = model.to(memory_format=torch.channels_last)  # after
images = images.to(memory_format=torch.channels_last)
```

## How it is measured
`relayout_ns` is the time per step in those calls and kernels, from a trace. Of several copies one
may have to stay. At most, every copy has a gradient that costs as much.

## Limits
On a GPU, torch itself makes two copies for each GroupNorm; they do not count.
"""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.trace_facts import TraceFacts, trace_facts
from lightning_gpuprof.analysis.savings.hidden import around, faster_kernels
from lightning_gpuprof.findings.model import Effort, Finding, Horizon, Place, Range
from lightning_gpuprof.findings.rule import measured, rule
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.units import interval_text, percent

BACKWARD = 2.0
MIN_CALLS = 2
LAYOUT_KERNELS = ("nchwToNhwc", "nhwcToNchw")
COPIES_OF_GROUPS = 2
MOST = 2
CHANNELS_LAST = """model = model.to(memory_format=torch.channels_last)
images = images.to(memory_format=torch.channels_last)  # once, before the first layer"""
ADVICE = (
    "Keep one memory layout through the model: shape weights to fit the data instead of "
    "transposing activations, and transpose inputs once, in the dataset."
)
CHANNELS_LAST_ADVICE = (
    "The convolutions compute in channels_last and convert each tensor to it and back. Keep model "
    "and input in channels_last."
)
EFFORT = Effort(Horizon.MEDIUM, "shapes change in the model's code", "a wrong axis goes unnoticed")
CHANNELS_LAST_EFFORT = Effort(
    Horizon.QUICK, "one line for the model, one for its input", "last digits of losses differ"
)


@rule(id="non-contiguous-layout", needs=("operators",), effort=EFFORT)
def judge(run: RunResults) -> Finding | None:
    """Return the finding about copies that only change the layout."""
    facts, step_ns = measured(trace_facts(run)), measured(run.step_ns)
    around_convolutions = [
        row
        for row in facts.analysis.kernels
        if any(kernel in row.name for kernel in LAYOUT_KERNELS)
    ]
    kernels_ns = sum(row.total_ns for row in around_convolutions) / facts.steps
    calls, copied_ns = _copies(facts, planes=bool(kernels_ns))
    cost_ns = round(copied_ns + kernels_ns)
    if not cost_ns or (calls < MIN_CALLS and not kernels_ns):
        return None
    stays = 1 / calls if calls >= MIN_CALLS else 1.0
    low, high = around(round((1 - stays) * copied_ns + kernels_ns))[0], round(BACKWARD * copied_ns)
    if kernels_ns:
        high += around(round(kernels_ns))[1]
        low, high = faster_kernels(run, step_ns, low, high)
    saving = Range(low=min(low, step_ns), high=min(high, step_ns))
    cause = Range(cost_ns, max(cost_ns, saving.high))
    if not saving.high:
        return None
    kernels = tuple(Place(kernel=row.name) for row in around_convolutions[:MOST])
    return Finding(
        title=f"{interval_text(cause.low, cause.high)} of each step (up to "
        f"{percent(cause.high / step_ns)}) only change layouts",
        advice=CHANNELS_LAST_ADVICE if kernels else ADVICE,
        evidence={"relayout_ns": cost_ns, "relayouts_per_step_count": round(calls)},
        saving_ns=saving,
        cause_ns=cause,
        confidence=0.6,
        places=kernels or (Place(phase=Phase.FORWARD.value, name="aten::contiguous"),),
        change=CHANNELS_LAST if kernels else None,
        effort=CHANNELS_LAST_EFFORT if kernels else EFFORT,
        explains=("memory-bound-kernels",) if kernels else (),
    )


def _copies(facts: TraceFacts, *, planes: bool) -> tuple[float, float]:
    """Return how many copies `contiguous` makes per step, and their time."""
    operators = facts.operators
    contiguous = operators.get("aten::contiguous")
    if contiguous is None:
        return 0.0, 0.0
    # The backward pass of a convolution copies its own input.
    calls = contiguous.calls - contiguous.backward_calls
    if not facts.on_device:
        return calls, contiguous.total_ns - contiguous.backward_ns
    groups = operators.get("aten::native_group_norm")
    if groups is not None and not planes:
        calls = max(0.0, calls - COPIES_OF_GROUPS * groups.calls)
    return calls, (contiguous.device_total_ns or 0.0) * calls / contiguous.calls
