"""The training loader is made anew for every epoch.

## What it measures
`remade_ns`: what the module's `train_dataloader` takes after the first epoch has begun, per
recorded step.

## Why it matters
With `Trainer(reload_dataloaders_every_n_epochs=1)` each epoch waits until `train_dataloader` has
read, sampled and indexed its dataset again, and no data worker is kept over it.

## What to do
Reload no longer (`reload_dataloaders_every_n_epochs=0`) where each loader is like the last one.
Else make what stays the same once, in `setup()`, and draw anew only what must differ, with
operations on whole arrays; or draw it in `__getitem__`, where workers share it.

## Thresholds
`MIN_FRAC` (`findings/epoch_cost.py`): below one percent of the steps' time nobody would change a
program. All of it goes where the loader can stay (the high bound, with the fifth of docs/adr/0031);
where some of it must be done again, code that takes half as long is the least to expect
(`LOW_FRAC`). Severity: the common scale (`findings/grade.py`).
"""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.savings.hidden import AROUND_FRAC
from lightning_gpuprof.findings.epoch_cost import epoch_finding
from lightning_gpuprof.findings.model import Abstained, Effort, Finding, Horizon, Where
from lightning_gpuprof.records.phases import Phase

ID = "rebuilt-loader"
EFFORT = Effort(
    Horizon.QUICK,
    "a few lines in train_dataloader or in the dataset",
    "what was drawn anew for each epoch must still be",
)
LOW_FRAC = 0.5
"""As of samples that are made cheaper (docs/adr/0031)."""


def evaluate(run: RunResults) -> Finding | Abstained | None:
    """Return a finding where making the loader again takes a share of the epochs."""
    starts = run.epoch_starts
    if starts is None:
        return Abstained(ID, "no start of an epoch was measured")
    return epoch_finding(
        run,
        starts.remade_ns,
        starts.count - 1,
        rule=ID,
        name="remade",
        title="train_dataloader takes {each} before each epoch after the first",
        advice="If each loader is like the last one, keep it "
        "(Trainer(reload_dataloaders_every_n_epochs=0)). If not, prepare what stays the same once, "
        "in setup(), and redraw only what must differ: with operations on whole arrays, or in "
        "__getitem__, where data workers share the work.",
        where=Where(phase=Phase.DATA_WAIT.value, name="train_dataloader"),
        gone_frac=(LOW_FRAC, 1 + AROUND_FRAC),
        confidence=0.9,
    )
