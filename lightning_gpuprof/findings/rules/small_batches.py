"""An evaluation takes its samples one by one, or in very small batches.

## Symptom
`predict`, `test` or `validate` has a batch size of four or less, and a batch takes milliseconds or
spends much of its time in the loop around the model.

## Why
Every batch costs the same whatever it holds: the loop, collating, copies to the device, the start
of each operator, and reading all weights. Without a backward pass, memory for more samples is
seldom missing.

## Fix
```python
DataLoader(crops)  # before: batch_size is 1
DataLoader(crops, batch_size=32)  # after
```

## How it is measured
`around_ns` is the time per batch that is neither the model's forward pass nor making the batch. On
a GPU it is the time in which the device is idle, if marks or the driver show that. At least this is
saved, as far as a batch of 32 samples has it once instead of several times; at most all of the
batch's time.

## Limits
The rule is silent for batches of 10 ms or more of which less than a tenth is around the model:
large models compute the samples of a batch one after the other. Samples of different sizes must be
padded to be batched.
"""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.findings.grade import FEW_SAMPLES
from lightning_gpuprof.findings.model import Effort, Finding, Horizon, Place, Range
from lightning_gpuprof.findings.rule import measured, rule
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.units import duration, percent

LARGER = 32
MIN_FRAC = 0.1
SHORT_NS = 10_000_000
"""In a shorter batch, the start of operators and reading the weights take a good part of the
model's time too."""
MOST_FRAC = 0.9
"""What larger batches save at most: each sample is still computed, in vectors."""
ADVICE = (
    "Take more samples per batch (batch_size={larger} or more): the loop around the model ({share} "
    "of the time), the start of each operator and reading the weights then cost once for all of "
    "them. Workers do not change that."
)
EFFORT = Effort(Horizon.QUICK, "one argument of the DataLoader", "a batch needs more memory")


@rule(id="small-batches", needs=("steps",), effort=EFFORT)
def judge(run: RunResults) -> Finding | None:
    """Return the finding about an evaluation in small batches."""
    loader, step_ns = run.start.loader, measured(run.step_ns)
    size = loader.batch_size if loader is not None else None
    if run.trains or size is None or not 0 < size <= FEW_SAMPLES:
        return None
    around_ns = _around_model_ns(run, step_ns)
    if around_ns < MIN_FRAC * step_ns and step_ns >= SHORT_NS:
        return None
    gone_frac = 1 - size / LARGER
    held = "a single sample" if size == 1 else f"{size} samples"
    return Finding(
        title=f"A batch holds {held} and takes {duration(step_ns)}",
        advice=ADVICE.format(larger=LARGER, share=percent(around_ns / step_ns)),
        evidence={"around_ns": around_ns, "batch_size_count": size},
        saving_ns=Range(round(gone_frac * around_ns), round(MOST_FRAC * gone_frac * step_ns)),
        cause_ns=Range(around_ns, step_ns),
        confidence=0.8,
        places=(Place(phase=Phase.FORWARD.value),),
        change=f"DataLoader(..., batch_size={LARGER})",
    )


def _around_model_ns(run: RunResults, step_ns: int) -> int:
    """Return the time per batch that is around the model: not its work, nor making samples."""
    forward, own = run.per_step(Phase.FORWARD), run.own_cost
    model_ns = forward.mean_ns if forward is not None else 0
    busy_frac = run.device.use.busy_frac if run.device.use is not None else None
    if run.on_gpu and busy_frac is not None:
        model_ns = round(busy_frac * step_ns)
    rest_ns = step_ns - model_ns - (run.wait_ns or 0) - (own.total_ns if own is not None else 0)
    return max(0, rest_ns)
