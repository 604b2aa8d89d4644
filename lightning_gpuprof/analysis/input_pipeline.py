"""What a step would take with more data workers: a model of the input pipeline."""

from dataclasses import dataclass

from lightning_gpuprof.records.schema import Loader

HANDOVER_LOW_NS = 100_000
HANDOVER_HIGH_NS = 1_000_000
"""What taking a ready batch from a worker costs the training process. The high bound was measured
(torch 2.13, batches up to 1 MB, 2 virtual cores in a sandbox: 1.0 to 1.4 ms); the low one is our
estimate for bare metal, where the same system calls are cheaper."""
MAX_WORKERS = 16


def most_workers(loader: Loader) -> int:
    """Return how many workers may be proposed.

    One worker yields an `IterableDataset` as the training process does; whether it shares its
    samples out among more is not known of one that has had none.
    """
    return 1 if loader.dataset_kind == "iterable" and not loader.num_workers else MAX_WORKERS


@dataclass(frozen=True)
class WorkerPlan:
    """A number of workers, and the step time to expect of it, low to high."""

    num_workers: int
    fetch_ns: int
    """Making one batch takes this long in one process."""
    step_low_ns: int
    step_high_ns: int


def plan_workers(
    *,
    step_ns: int,
    wait_ns: int,
    num_workers: int,
    cpu_count: int | None,
    most: int = MAX_WORKERS,
) -> WorkerPlan:
    """Find how many workers hide the fetching, and what a step would take with them.

    With no workers, the wait is the fetch itself. With `w` busy ones, a batch takes `w` steps to
    make. The best case is that fetching hides behind the rest of the step, as far as the cores
    have room for both; the worst, that it slows training by its share of each core.
    At most `most` workers are proposed.

    >>> plan_workers(step_ns=10_000_000, wait_ns=6_000_000, num_workers=0, cpu_count=4)
    WorkerPlan(num_workers=2, fetch_ns=6000000, step_low_ns=4100000, step_high_ns=6500000)
    """
    cores = max(1, cpu_count or 1)
    fetch_ns = wait_ns if num_workers == 0 else num_workers * step_ns
    rest_ns = max(1, step_ns - wait_ns)
    # One more than hides the fetch on paper: batches do not all take the same time.
    needed = -(-fetch_ns // rest_ns)
    workers = min(max(needed, num_workers + 1), most, cores)
    produced_ns = fetch_ns // workers
    added_ns = fetch_ns if num_workers == 0 else wait_ns
    return WorkerPlan(
        num_workers=workers,
        fetch_ns=fetch_ns,
        step_low_ns=max(rest_ns, produced_ns, (rest_ns + fetch_ns) // cores)
        + HANDOVER_LOW_NS * (num_workers == 0),
        step_high_ns=max(rest_ns + added_ns // cores, produced_ns)
        + HANDOVER_HIGH_NS * (num_workers == 0),
    )
