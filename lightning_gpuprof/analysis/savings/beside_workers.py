"""What batches from workers cost training beside the wait for them."""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.trace_facts import trace_facts
from lightning_gpuprof.analysis.run.worker_lines import made_in_ns, per_batch_ns
from lightning_gpuprof.analysis.savings.hidden import around
from lightning_gpuprof.analysis.savings.input_pipeline import (
    HANDED_TENSORS,
    HANDOVER_HIGH_NS,
    TENSOR_NS,
)

MOST_UNSEEN = 3
"""What is in no sample would be in at most so many, 19 times in 20."""
_TENSOR_MADE = "aten::set_"


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
