"""What a step would take with more data workers."""

from dataclasses import dataclass

from lightning_gpuprof.records.schema import Loader

HANDOVER_LOW_NS = 100_000
HANDOVER_HIGH_NS = 1_000_000
"""Taking a ready batch from a worker costs the training process this much (docs/adr/0031)."""
MAX_WORKERS = 16


def most_workers(loader: Loader) -> int:
    """Return how many workers may be proposed.

    More than one worker of an `IterableDataset` yield every sample several times, unless the
    dataset shares them out; without workers so far, nobody knows.
    """
    return 1 if loader.dataset_kind == "iterable" and not loader.num_workers else MAX_WORKERS


@dataclass(frozen=True)
class WorkerPlan:
    """A number of workers, and the step time to expect of it, low to high."""

    num_workers: int
    step_low_ns: int
    step_high_ns: int


def plan_workers(
    *, step_ns: int, wait_ns: int, num_workers: int, cores: int, most: int = MAX_WORKERS
) -> WorkerPlan:
    """Find how many workers hide the fetching, and what a step would take with them.

    Without workers the wait is the fetch itself; with `w` busy ones a batch takes `w` steps. At
    best fetching hides behind the rest of the step, as far as the cores have room for both; at
    worst it slows training by its share of each core.

    >>> plan_workers(step_ns=10_000_000, wait_ns=6_000_000, num_workers=0, cores=4)
    WorkerPlan(num_workers=2, step_low_ns=4100000, step_high_ns=6500000)
    """
    fetch_ns = wait_ns if num_workers == 0 else num_workers * step_ns
    rest_ns = max(1, step_ns - wait_ns)
    # One more than hides the fetch on paper: batches do not all take the same time.
    workers = min(max(-(-fetch_ns // rest_ns), num_workers + 1), most, cores)
    produced_ns = fetch_ns // workers
    added_ns = fetch_ns if num_workers == 0 else wait_ns
    return WorkerPlan(
        num_workers=workers,
        step_low_ns=max(rest_ns, produced_ns, (rest_ns + fetch_ns) // cores)
        + HANDOVER_LOW_NS * (num_workers == 0),
        step_high_ns=max(rest_ns + added_ns // cores, produced_ns)
        + HANDOVER_HIGH_NS * (num_workers == 0),
    )
