"""The first batch of every epoch takes long, although no data workers are started.

## Symptom
Each epoch after the first begins with a wait that other steps do not have.

## Why
An `IterableDataset` may read a lot before its first sample, for example to fill a shuffle buffer;
this happens in persistent workers, too. A custom sampler may compute what to draw from. Training
stands still meanwhile.

## Fix
```python
def __iter__(self):  # before: computed in every epoch
    weights = self.weigh()

def __init__(self):  # after: once
    self.weights = self.weigh()
```

Work on whole arrays, and prepare an epoch during the one before it.

## How it is measured
`first_batch_ns` is the additional wait of the first steps of epochs and between epochs, per step
and without the first epoch. With persistent workers, one batch of each worker is subtracted.

## Limits
How much of the wait can be saved is not known, except that half of a sampler's time can. Workers
that start in each epoch are reported by `worker-startup`.
"""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.findings.epoch_cost import epoch_finding, workers_stay
from lightning_gpuprof.findings.model import Effort, Finding, Horizon, Place
from lightning_gpuprof.findings.rule import measured, rule
from lightning_gpuprof.records.phases import Phase

SAMPLER_FRAC = 0.5
"""At least this share of a sampler's time is saved: torch draws 100,000 indices in milliseconds, so
nearly all of it is computing what to draw from."""
OF_DATASET = (
    "Make the work of {dataset} before its first sample cheaper: operate on whole arrays, call a "
    "model for many samples at once, and avoid .item()."
)
OF_SAMPLER = (
    "{sampler}.__iter__ runs in the training process before the first batch: compute once, in "
    "__init__, what is the same in each epoch, and only draw from it here."
)
OF_WORKERS = (
    "The workers are persistent, but {dataset} begins an epoch with work before its first sample. "
    "Use a smaller shuffle buffer or one that stays filled, so that they read while training goes "
    "on, and read an index only once."
)
EFFORT = Effort(
    Horizon.QUICK, "what the dataset or sampler does in __iter__ before its first sample", "none"
)


@rule(id="slow-epoch-start", needs=("training", "steps", "epoch starts"), effort=EFFORT)
def judge(run: RunResults) -> Finding | None:
    """Return the finding about epochs that begin with a long wait, but start no workers."""
    starts, loader = measured(run.epochs.starts), run.start.loader
    if loader is None or not workers_stay(run):
        return None
    workers, again = loader.num_workers or 0, starts.count - 1
    # Persistent workers make their first batches as the epoch begins, whatever the dataset does.
    time_ns = starts.again_ns - workers * again * measured(run.step_ns)
    sampler = loader.sampler if loader.dataset_kind == "map" else None
    dataset = loader.dataset or "the dataset"
    advice = (OF_WORKERS if workers else OF_DATASET).format(dataset=dataset)
    return epoch_finding(
        run,
        time_ns,
        again,
        name="first_batch",
        title="Each epoch's first batch takes {each} longer",
        advice=OF_SAMPLER.format(sampler=sampler) if sampler else advice,
        error_frac=starts.error_frac,
        place=Place(phase=Phase.DATA_WAIT.value, name=sampler),
        gone_frac=(SAMPLER_FRAC if sampler else 0, 1),
        confidence=0.6 if sampler else 0.5,
    )
