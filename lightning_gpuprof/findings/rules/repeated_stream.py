"""Each worker reads the whole stream, so that every sample is trained on several times per epoch.

## Symptom
An epoch has as many times the expected steps as there are workers, and goes over the same samples
again and again.

## Why
Every worker has its own copy of an `IterableDataset` and iterates over all of it. Only the dataset
can divide its samples among the workers.

## Fix
```python
def __iter__(self):  # before
    yield from self.files

def __iter__(self):  # after
    worker = get_worker_info()
    yield from self.files[worker.id :: worker.num_workers] if worker else self.files
```

## How it is measured
The first batches of all workers are compared by a checksum, and so are their second batches. They
are the same if they are equal in both turns, while first and second batches differ. If neither
`max_steps` nor `limit_train_batches` ends the training, the saving is that of an epoch that has
every sample once.

## Limits
Workers that shuffle the whole stream in different orders yield different batches, and are not
noticed. With several ranks, only the workers of a rank are compared.
"""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.settings import settings_of
from lightning_gpuprof.findings.model import Effort, Finding, Horizon, Place, Range, Severity, When
from lightning_gpuprof.findings.rule import measured, rule
from lightning_gpuprof.records.phases import Phase

ADVICE = (
    "The first batches of the {workers} workers are equal, and so are the second: {dataset} does "
    "not look which worker it is in. Let each worker read its part of the stream "
    "(get_worker_info), or use one worker."
)
CHANGE = """\
# in {dataset}.__iter__, before anything is read:
worker = torch.utils.data.get_worker_info()
if worker is not None:
    files = files[worker.id :: worker.num_workers]  # or itertools.islice of what it iterates
    over"""
LEAST_FRAC = 0.9
"""Of what the repeated steps take: an epoch of fewer steps has its beginning and end as before."""
EFFORT = Effort(Horizon.QUICK, "a few lines of the dataset", "an epoch has fewer steps")


@rule(id="repeated-stream", needs=("stream batches",), effort=EFFORT)
def judge(run: RunResults) -> Finding | None:
    """Return the finding about workers that yield the same batches."""
    batches = measured(run.facts.stream_batches)
    if not batches.same:
        return None
    loader, settings = run.start.loader, settings_of(run.start)
    dataset = (loader.dataset if loader is not None else None) or "the dataset"
    limited = settings.max_steps is not None or isinstance(settings.limit_train_batches, int)
    step_ns = 0 if limited else run.fit_step_ns or 0
    cost_ns = round(step_ns * (1 - 1 / batches.workers))
    return Finding(
        severity=Severity.BY_SAVING if cost_ns else Severity.WARNING,
        title=f"Each sample comes {batches.workers} times per epoch, once from each worker",
        advice=ADVICE.format(workers=batches.workers, dataset=dataset),
        evidence={"workers_count": batches.workers, "repeated_ns": cost_ns},
        saving_ns=Range(round(LEAST_FRAC * cost_ns), cost_ns),
        cause_ns=Range(cost_ns, cost_ns),
        confidence=0.9,
        places=(Place(phase=Phase.DATA_WAIT.value, name=f"{dataset}.__iter__"),),
        change=CHANGE.format(dataset=dataset),
        when=When.ALSO_BETWEEN,
        matters=True,
    )
