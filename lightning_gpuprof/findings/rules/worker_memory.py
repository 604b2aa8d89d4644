"""The loader's workers need more and more memory, usually for copies of the dataset.

## Symptom
Memory of the machine fills up while training runs, although the training process itself does not
grow. In the end the kernel kills a worker: "DataLoader worker (pid ...) is killed by signal:
Killed".

## Why
On Linux, workers are forked: they share the memory of the training process until they write to it.
Python writes to every object that it uses, because it counts references. If the dataset holds lists
or dicts of Python objects, each worker therefore copies them, page by page, until it has a copy of
its own of all it uses. A worker that keeps what it has loaded grows as well.

## Fix
```python
self.samples = [json.loads(line) for line in file]  # before: many objects
self.offsets = np.array(offsets)  # after: a few arrays, and parsing in __getitem__
```

Arrays of NumPy, tensors and Arrow tables are single objects whose data nobody writes to. Fewer
workers hold fewer copies. A cache in `__getitem__` exists once per worker; bound its size.

## How it is measured
A thread reads the pages of the first worker that no other process uses (`smaps_rollup` of
/proc), and multiplies them by the number of workers. `growth_per_step_bytes` is the slope over
steps. It counts if chance gives such a slope in at most one of a thousand runs. A rise counts as
copies as far as the workers' anonymous pages, shared or not, stay as many as they were. Copies end
when nothing is shared any more: `most_bytes` is the memory of all workers by then.

## Limits
The rule is silent below 32 MiB per worker, which Python's own modules take as they are used. Where
memory has stopped growing, it speaks if the copies take a tenth of the memory or more, or if the
dataset holds many objects; from 64 MiB per worker on these are a warning. It is critical if memory
is full before the run, or one of twice its length, ends. It needs a Linux with /proc, and some
seconds of training.
"""

from lightning_gpuprof.analysis.memory.worker_growth import WorkerGrowth
from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.settings import settings_of
from lightning_gpuprof.findings.growing import ends_run
from lightning_gpuprof.findings.model import Effort, Finding, Horizon, Place, Severity
from lightning_gpuprof.findings.rule import evidence_of, measured, rule
from lightning_gpuprof.units import size

MIN_BYTES_PER_WORKER = 32 * 2**20
WARN_BYTES_PER_WORKER = 64 * 2**20
"""Copies of a dataset that are this large are worth a change: they come once more for each worker,
and for each rank."""
WARN_BYTES_PER_STEP = 100_000
"""This is a gigabyte in 10,000 steps."""
MUCH_FRAC = 0.1
"""Of the memory that was available. Less is in nobody's way."""
COPIES = (
    "{what} is copied into each worker as it is used, because Python writes to every object that "
    "it uses. Keep samples in NumPy arrays, tensors or an Arrow table, not in lists or dicts of "
    "Python objects. Fewer workers hold fewer copies."
)
LEAK = (
    "Each worker keeps something for every batch, such as a cache in __getitem__ or a list of what "
    "it has loaded. Bound its size: each of the {workers} workers has its own."
)
ARRAYS = "self.{attribute} = np.array(...)  # or a tensor, or an Arrow table, instead of a {was}"
EFFORT = Effort(Horizon.MEDIUM, "how the dataset holds its samples", "none")


@rule(id="worker-memory", needs=("worker memory",), effort=EFFORT)
def judge(run: RunResults) -> Finding | None:
    """Return the finding about workers whose memory grows."""
    memory, objects = measured(run.memory.workers), run.facts.dataset_objects
    rise_bytes = memory.last_bytes - memory.first_bytes
    if rise_bytes < MIN_BYTES_PER_WORKER * memory.workers:
        return None
    severity = _severity(run, memory, rise_bytes)
    if severity is None:
        return None
    by_copies = memory.by_copies
    what, change = "What the dataset holds", None
    if by_copies and objects is not None:
        what = f"{objects.owner}.{objects.attribute} ({objects.items:,} objects)"
        was = f"{objects.collection} of {objects.item}"
        change = ARRAYS.format(attribute=objects.attribute, was=was)
    left = _steps_left(run, memory)
    if ends_run(run, left):
        severity = Severity.CRITICAL
    name = f"{objects.owner}.{objects.attribute}" if objects and by_copies else "workers"
    return Finding(
        severity=severity,
        title=_title(memory, rise_bytes, left),
        advice=COPIES.format(what=what) if by_copies else LEAK.format(workers=memory.workers),
        evidence=evidence_of(
            growth_per_step_bytes=round(memory.bytes_per_step or 0) or None,
            first_bytes=memory.first_bytes,
            last_bytes=memory.last_bytes,
            copied_bytes=memory.copied_bytes,
            most_bytes=memory.last_bytes + memory.shared_bytes if by_copies else None,
            workers_count=memory.workers,
            available_bytes=memory.available_bytes,
            steps_left_count=left,
        ),
        confidence=0.9 if by_copies and objects is not None else 0.6,
        places=(Place(name=name),),
        matters=True,
        change=change,
    )


def _severity(run: RunResults, memory: WorkerGrowth, rise_bytes: int) -> Severity | None:
    """Return how much the memory matters; None if it does not."""
    if memory.bytes_per_step is None and not memory.by_copies:
        return None
    available = memory.available_bytes
    takes_much = available is not None and rise_bytes >= MUCH_FRAC * (available + rise_bytes)
    grows_fast = memory.bytes_per_step is not None and memory.bytes_per_step >= WARN_BYTES_PER_STEP
    of_dataset = run.facts.dataset_objects is not None
    large = of_dataset and memory.copied_bytes >= WARN_BYTES_PER_WORKER * memory.workers
    if takes_much or grows_fast or large:
        return Severity.WARNING
    return Severity.INFO if of_dataset or memory.bytes_per_step is not None else None


def _steps_left(run: RunResults, memory: WorkerGrowth) -> int | None:
    """Return after how many steps the memory is full; None if it never is, or if unknown."""
    pace, available = memory.bytes_per_step, memory.available_bytes
    if pace is None or available is None:
        return None
    ranks = settings_of(run.start).num_devices or 1 if run.start.world_size > 1 else 1
    if memory.by_copies and memory.shared_bytes * ranks < available:
        return None  # by then all has been copied
    return int(available / (pace * ranks))


def _title(memory: WorkerGrowth, rise_bytes: int, left: int | None) -> str:
    if memory.bytes_per_step is None:
        return f"The loader's workers hold {size(rise_bytes)} of copies"
    title = f"The workers' memory grows by {size(memory.bytes_per_step)} per step"
    return f"{title}, full in {left:,} steps" if left is not None else title
