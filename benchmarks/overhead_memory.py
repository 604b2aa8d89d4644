"""How much memory GpuProfCallback holds in a long fit: see benchmarks/overhead.py."""

import resource
import tracemalloc

from overhead_variants import KINDS, fit


def memory_growth(steps: int) -> dict[str, float]:
    """Return what Python's allocator holds for this package, early and late in a long fit.

    Only allocations of the package's own lines are traced, numpy's among them.
    """
    block = KINDS["tiny"].block
    looks = {(steps * share // 100) // block * block for share in range(5, 100, 5)}
    held: dict[int, int] = {}
    rss: dict[int, int] = {}

    def look(step: int) -> None:
        if step in looks:
            ours = tracemalloc.take_snapshot().filter_traces([_OURS]).statistics("filename")
            held[step] = sum(found.size for found in ours)
            rss[step] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

    tracemalloc.start()
    fit("GpuProfCallback outside its window", "tiny", steps, at_block=look)
    tracemalloc.stop()
    steps_seen = sorted(held)
    first, last = steps_seen[0], steps_seen[-1]
    return {
        "steps": last - first,
        "most_held_bytes": max(held.values()),
        "held_growth_bytes": held[last] - held[first],
        "peak_rss_growth_bytes": rss[last] - rss[first],
    }


_OURS = tracemalloc.Filter(True, "*lightning_gpuprof*")
