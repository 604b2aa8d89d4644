"""What a step would take with data workers, and what cores they leave: the input pipeline."""

from dataclasses import dataclass

from lightning_gpuprof.records.schema import Loader

HANDOVER_LOW_NS = 100_000
HANDOVER_HIGH_NS = 1_000_000
"""What taking a ready batch from a worker costs the training process. The high bound was measured
(torch 2.13, batches up to 1 MB, 2 virtual cores in a sandbox: 1.0 to 1.4 ms); the low one is our
estimate for bare metal, where the same system calls are cheaper."""
HANDED_TENSORS, TENSOR_NS = 8, 200_000
"""Batches of so many tensors the high bound is of; each further one is handed over by itself, which
takes that long (docs/adr/0031)."""
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


@dataclass(frozen=True)
class CorePlan:
    """Cores divided between workers and torch's threads, and the step time to expect."""

    num_workers: int
    threads: int
    step_low_ns: int
    step_high_ns: int


def divide_cores(
    *, fetch_ns: int, compute_ns: int, cores: int, most: int = MAX_WORKERS
) -> CorePlan | None:
    """Find how to divide the cores of a step that fetches in its own process, then uses them all.

    Work is conserved: a step takes no less than all its core time divided by the cores, than a
    batch takes one worker divided by the workers, and than computing takes with the threads left.
    That is at most `cores / threads` times what it takes now, where all threads were of use, and
    at least what it takes now, where the others only waited. None where no division makes the
    step shorter for sure.

    >>> divide_cores(fetch_ns=40_000_000, compute_ns=10_000_000, cores=2)
    CorePlan(num_workers=2, threads=1, step_low_ns=25100000, step_high_ns=31000000)
    >>> divide_cores(fetch_ns=10_000_000, compute_ns=10_000_000, cores=2) is None
    True
    """
    plans = []
    for workers in range(1, min(cores, most) + 1):
        threads = max(1, cores - workers)
        produced_ns, used_ns = fetch_ns // workers, compute_ns * cores
        low = max(produced_ns, compute_ns, (fetch_ns + compute_ns) // cores)
        high = max(produced_ns, used_ns // threads, (fetch_ns + used_ns) // cores)
        plans.append(CorePlan(workers, threads, low + HANDOVER_LOW_NS, high + HANDOVER_HIGH_NS))
    best = min(plans, key=lambda plan: (plan.step_high_ns, plan.num_workers))
    return best if best.step_high_ns < fetch_ns + compute_ns else None
