"""Counts the training thread's page faults, and tries what one takes (Linux)."""

import mmap
from collections.abc import Callable
from time import perf_counter_ns
from typing import NamedTuple

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

TRIED_BYTES = 4 << 20
ROUNDS = 3


class Faults(NamedTuple):
    """What a thread has had since it began."""

    faults: int
    system_ns: int


def thread_faults() -> Faults | None:
    """Count those of the calling thread; None where the system does not tell threads apart."""
    who = getattr(resource, "RUSAGE_THREAD", None)
    if who is None:
        return None
    usage = resource.getrusage(who)
    return Faults(usage.ru_minflt, round(1e9 * usage.ru_stime))


def fault_ns(
    count: Callable[[], Faults | None] = thread_faults,
    clock: Callable[[], int] = perf_counter_ns,
) -> float | None:
    """Return what a fault takes: fresh memory is written to page by page and given back.

    It takes some milliseconds; where pages are large there are fewer of them, and each takes more.
    """
    tried = []
    for _ in range(ROUNDS):
        before, begin_ns = count(), clock()
        memory = mmap.mmap(-1, TRIED_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        memory[:: mmap.PAGESIZE] = bytes(TRIED_BYTES // mmap.PAGESIZE)
        memory.close()
        taken_ns, after = clock() - begin_ns, count()
        if before is not None and after is not None and after.faults > before.faults:
            tried.append(taken_ns / (after.faults - before.faults))
    return min(tried, default=None)
