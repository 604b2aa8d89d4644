"""What workers cost training beside the wait for them: turns on the cores, and large batches."""

from math import comb, hypot

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.trace_facts import trace_facts
from lightning_gpuprof.analysis.run.worker_lines import made_in_ns, per_batch_ns
from lightning_gpuprof.analysis.savings.hidden import Exposed, around, exposed
from lightning_gpuprof.analysis.savings.input_pipeline import (
    HANDED_TENSORS,
    HANDOVER_HIGH_NS,
    TENSOR_NS,
)
from lightning_gpuprof.records.phases import Phase

OWN_LOW_NS, OWN_HIGH_NS = 300_000, 1_000_000
"""Of `other` this much is Lightning's own: 0.29 to 0.66 ms in four programs (docs/adr/0031)."""
READ_NS_PER_MIB = 110_000
"""First reading of a batch that came through shared memory: measured 0.10 to 0.12 ms per MiB, as
its pages are new to this process. An upper bound, as bare metal maps them sooner."""
MOST_UNSEEN = 3
"""What is in no sample would be in at most so many, 19 times in 20."""
LESS_FRAC = 0.75
"""Of the bytes goes that much with uint8 instead of float32; crops take more away."""


_TENSOR_MADE = "aten::set_"


def taken_turns_frac(work_frac: float, workers: int, cores: int) -> float:
    """Return the share of its core that training loses to workers on average.

    Each is at work in `work_frac` of the time, independently of the others; where there are more
    busy processes than cores, they take turns.

    >>> taken_turns_frac(0.5, workers=1, cores=2), round(taken_turns_frac(0.5, 2, 2), 3)
    (0.0, 0.083)
    """
    return sum(
        comb(workers, busy)
        * work_frac**busy
        * (1 - work_frac) ** (workers - busy)
        * max(0.0, 1 - cores / (busy + 1))
        for busy in range(workers + 1)
    )


def turns_ns(run: RunResults, computing_ns: int) -> int:
    """Return what a step computes longer because workers have its core; 0 where not known.

    On a GPU the device computes.
    """
    seen, loader, cores = run.worker_lines, run.start.loader, run.cores
    if seen is None or loader is None or not loader.num_workers or not cores or run.on_gpu:
        return 0
    work_frac = seen.work / seen.whole
    return round(taken_turns_frac(work_frac, loader.num_workers, cores) * computing_ns)


def made_at_most_ns(run: RunResults) -> int | None:
    """Return what a batch takes at most: a fifth more than was seen, or what goes unseen."""
    made_ns, seen = made_in_ns(run), run.worker_lines
    if made_ns is not None:
        return around(made_ns)[1]
    return None if seen is None else per_batch_ns(run, min(MOST_UNSEEN, seen.whole))


def handed_tensors(run: RunResults) -> float | None:
    """Return how many tensors of a batch come from workers; None without a trace that shows it.

    Each is put into its shared memory by `_TENSOR_MADE`.
    """
    facts, loader = trace_facts(run), run.start.loader
    rows = facts.rows("operators") if facts and loader and loader.num_workers else ()
    made = next((row for row in rows if row["name"] == _TENSOR_MADE), None)
    return None if facts is None or made is None else made.get("loading_count", 0) / facts.steps


def handover_high_ns(run: RunResults) -> int:
    """Return what taking over a ready batch costs at most, by how many tensors it has."""
    more = max(0.0, (handed_tensors(run) or 0.0) - HANDED_TENSORS)
    return HANDOVER_HIGH_NS + round(TENSOR_NS * more)


def fewer_bytes(run: RunResults, num_bytes: int) -> Exposed:
    """Return what smaller batches save beside the wait for them, where workers hand them over.

    A large batch comes in shared memory of its own, which the training process frees when it
    drops the batch, between steps, in the phase `other`: that was measured in this run, with what
    has a name in it, such as a hook of the module's, left out. Its pages are new to this process,
    so reading it once takes longer too.
    """
    other = run.per_step(Phase.OTHER)
    if other is None:
        return Exposed(0, 0, "unknown")
    named = (part.per_step for part in run.parts_of(Phase.OTHER))
    nameless_ns = other.mean_ns - sum(part.mean_ns for part in named if part is not None)
    sure = exposed(run, Phase.OTHER, max(0, nameless_ns - OWN_HIGH_NS))
    freed_ns = max(0, nameless_ns - OWN_LOW_NS)
    most = exposed(run, Phase.OTHER, freed_ns)
    read_ns = 0 if run.on_gpu else round(READ_NS_PER_MIB * num_bytes / (1 << 20))
    most_ns = min(freed_ns, most.high_ns) + read_ns
    return Exposed(round(LESS_FRAC * sure.low_ns), most_ns, most.basis)


def both(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    """Return the least and the most that two savings make together.

    Their errors have nothing to do with each other, so the squares of these add up.

    >>> both((10, 16), (0, 8))
    (12, 22)
    """
    middle = (sum(one) + sum(other)) / 2
    half = hypot((one[1] - one[0]) / 2, (other[1] - other[0]) / 2)
    return round(middle - half), round(middle + half)
