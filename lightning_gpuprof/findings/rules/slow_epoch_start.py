"""The first batch of every epoch takes long, although no data workers start.

## What it measures
`first_batch_ns`: what the first steps of epochs wait for data above the usual step, and the waits
for data between epochs, per recorded step; the first epoch is left out, as is the making of a
loader (`rebuilt-loader`).

## Why it matters
An `IterableDataset` may do much before its first sample: read or shuffle a file, or play episodes
with the policy that is trained. All of it is done while training stands still.

## What to do
Make that work cheaper: operations on whole arrays, calls of the model for many samples at once,
`.item()` on none of them. What does not depend on the model can be made ready during the epoch
before, by a thread.

## Thresholds
`MIN_FRAC`: below one percent of the steps' time nobody would change a program. How much of the work
can go is not known, so the low bound is 0. With data workers it is `worker-startup`. Severity: the
common scale (`findings/grade.py`).
"""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.findings.grade import grade
from lightning_gpuprof.findings.model import Abstained, Effort, Finding, Horizon, Range, Where
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.units import duration, percent

ID = "slow-epoch-start"
EFFORT = Effort(Horizon.QUICK, "what the dataset does in __iter__ before its first sample", "none")
MIN_FRAC = 0.01


def evaluate(run: RunResults) -> Finding | Abstained | None:
    """Return a finding where epochs without workers begin with a long wait."""
    starts, steps, step_ns, loader = run.epoch_starts, run.steps, run.step_ns, run.start.loader
    if starts is None or steps is None or step_ns is None:
        return Abstained(ID, "no start of an epoch was measured")
    if loader is None or loader.num_workers != 0:
        return None
    cost_ns = starts.again_ns // steps.count
    if cost_ns < MIN_FRAC * step_ns:
        return None
    each_ns = starts.again_ns // max(1, starts.count - 1)
    saving = Range(low=0, high=cost_ns)
    return Finding(
        id=ID,
        severity=grade(saving, step_ns),
        title=f"The first batch of each epoch takes {duration(each_ns)} longer than others "
        f"({percent(cost_ns / step_ns)} of all steps)",
        advice="Make cheaper what the dataset does before its first sample: operations on whole "
        "arrays, calls of a model for many samples at once, .item() on none of them.",
        evidence={
            "first_batch_ns": cost_ns,
            "first_batch_per_epoch_ns": each_ns,
            "epochs_count": starts.count,
            "step_ns": step_ns,
        },
        saving_ns=saving,
        confidence=0.5,
        where=(Where(phase=Phase.DATA_WAIT.value),),
    )
