"""The first batch of every epoch takes long, although no data workers start.

## What it measures
`first_batch_ns`: what the first steps of epochs wait for data above the usual step, and the waits
for data between epochs, per recorded step; the first epoch is left out, as is the making of a
loader (`rebuilt-loader`).

## Why it matters
An `IterableDataset` may do much before its first sample: read or shuffle a file, or play episodes
with the policy that is trained. A sampler of the program's own may work out what to draw from. All
of it is done while training stands still.

## What to do
Make that work cheaper: operations on whole arrays, calls of the model for many samples at once,
`.item()` on none of them. What does not depend on the model can be made ready during the epoch
before, by a thread. What a sampler works out from the data alone is the same in each epoch: once is
enough.

## Thresholds
`MIN_FRAC` (`findings/epoch_cost.py`): below one percent of the steps' time nobody would change a
program. How much of the work can go is not known, so the low bound is 0; but for a sampler of the
program's own over an indexed dataset `SAMPLER_FRAC`: torch draws 100,000 indices in some
milliseconds, the rest is working out what to draw from. Where data workers start anew each time it
is `worker-startup`; those that stay begin an epoch with their sampler in the training process, and
with the making of a first batch, which no sampler can spare: what is waited for workers is left
out, or, where that was not measured, as many steps as there are workers. Severity: the common
scale (`findings/grade.py`).
"""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.findings.epoch_cost import epoch_finding
from lightning_gpuprof.findings.model import Abstained, Effort, Finding, Horizon, Where
from lightning_gpuprof.records.phases import Phase

ID = "slow-epoch-start"
EFFORT = Effort(
    Horizon.QUICK, "what the dataset or sampler does in __iter__ before its first sample", "none"
)
SAMPLER_FRAC = 0.5
OF_DATASET = (
    "Make what the dataset does before its first sample cheaper: work on whole arrays, call a "
    "model for many samples at once, and avoid .item()."
)
OF_SAMPLER = (
    "{sampler}.__iter__ runs in the training process before the first batch: work out once, in "
    "__init__, what does not change from epoch to epoch, with operations on whole arrays, and only "
    "draw from it here."
)


def evaluate(run: RunResults) -> Finding | Abstained | None:
    """Return a finding where epochs begin with a long wait, though no workers are started."""
    starts, loader = run.epoch_starts, run.start.loader
    if starts is None:
        return Abstained(ID, "no start of an epoch was measured")
    if loader is None or loader.num_workers is None:
        return None
    sampler = loader.sampler if loader.dataset_kind == "map" else None
    if loader.num_workers and not (loader.persistent_workers and sampler):
        return None
    taken_ns = starts.again_ns
    title = "The first batch of each epoch takes {each} longer than the others"
    if loader.num_workers:
        making_ns = starts.workers_ns
        if making_ns is None:
            making_ns = loader.num_workers * (run.step_ns or 0) * (starts.count - 1)
        taken_ns = max(0, taken_ns - making_ns)
        title = "Before the first batch of each epoch the training process is at work for {each}"
    return epoch_finding(
        run,
        taken_ns,
        starts.count - 1,
        rule=ID,
        name="first_batch",
        title=title,
        advice=OF_SAMPLER.format(sampler=sampler) if sampler else OF_DATASET,
        where=Where(phase=Phase.DATA_WAIT.value, name=sampler),
        gone_frac=(SAMPLER_FRAC if sampler else 0, 1),
        confidence=0.6 if sampler else 0.5,
    )
