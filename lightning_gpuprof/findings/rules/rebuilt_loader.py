"""The training loader is made anew for every epoch.

## What it measures
`remade_ns`: what the module's `train_dataloader` takes after the first epoch has begun, per
recorded step.

## Why it matters
With `Trainer(reload_dataloaders_every_n_epochs=1)` each epoch waits until `train_dataloader` has
read, sampled and indexed its dataset again, and no data worker is kept over it.

## What to do
Make what stays the same once, in `setup()`, and draw anew only what must differ, with operations
on whole arrays; or draw it in `__getitem__`, where workers share it, and reload no longer.

## Thresholds
`MIN_FRAC`: below one percent of the steps' time nobody would change a program. How much of the work
must be done again is not known, so the low bound is 0. Severity: the common scale
(`findings/grade.py`).
"""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.findings.grade import grade
from lightning_gpuprof.findings.model import Abstained, Effort, Finding, Horizon, Range, Where
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.units import duration, percent

ID = "rebuilt-loader"
EFFORT = Effort(
    Horizon.QUICK,
    "a few lines in train_dataloader or in the dataset",
    "what was drawn anew for each epoch must still be",
)
MIN_FRAC = 0.01


def evaluate(run: RunResults) -> Finding | Abstained | None:
    """Return a finding where making the loader again takes a share of the epochs."""
    starts, steps, step_ns = run.epoch_starts, run.steps, run.step_ns
    if starts is None or steps is None or step_ns is None:
        return Abstained(ID, "no start of an epoch was measured")
    cost_ns = starts.remade_ns // steps.count
    if cost_ns < MIN_FRAC * step_ns:
        return None
    each_ns = starts.remade_ns // max(1, starts.count - 1)
    saving = Range(low=0, high=cost_ns)
    return Finding(
        id=ID,
        severity=grade(saving, step_ns),
        title=f"train_dataloader takes {duration(each_ns)} before each epoch after the first "
        f"({percent(cost_ns / step_ns)} of all steps)",
        advice="Make what stays the same once, in setup(), and draw anew only what must differ: "
        "with operations on whole arrays, or in __getitem__, where data workers share the work.",
        evidence={
            "remade_ns": cost_ns,
            "remade_per_epoch_ns": each_ns,
            "epochs_count": starts.count,
            "step_ns": step_ns,
        },
        saving_ns=saving,
        confidence=0.5,
        where=(Where(phase=Phase.DATA_WAIT.value, name="train_dataloader"),),
    )
