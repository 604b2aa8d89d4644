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
`MIN_FRAC` (`findings/epoch_cost.py`): below one percent of the steps' time nobody would change a
program. How much of the work can go is not known, so the low bound is 0. With data workers it is
`worker-startup`. Severity: the common scale (`findings/grade.py`).
"""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.findings.epoch_cost import epoch_finding
from lightning_gpuprof.findings.model import Abstained, Effort, Finding, Horizon, Where
from lightning_gpuprof.records.phases import Phase

ID = "slow-epoch-start"
EFFORT = Effort(Horizon.QUICK, "what the dataset does in __iter__ before its first sample", "none")


def evaluate(run: RunResults) -> Finding | Abstained | None:
    """Return a finding where epochs without workers begin with a long wait."""
    starts, loader = run.epoch_starts, run.start.loader
    if starts is None:
        return Abstained(ID, "no start of an epoch was measured")
    if loader is None or loader.num_workers != 0:
        return None
    return epoch_finding(
        run,
        starts.again_ns,
        starts.count - 1,
        rule=ID,
        name="first_batch",
        title="The first batch of each epoch takes {each} longer than the others",
        advice="Make what the dataset does before its first sample cheaper: work on whole arrays, "
        "call a model for many samples at once, and avoid .item().",
        where=Where(phase=Phase.DATA_WAIT.value),
        gone_frac=(0, 1),  # nobody knows how much of it must stay
        confidence=0.5,
    )
