"""Says at which lines worker processes were seen to make batches."""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.worker_lines import (
    made_in_ns,
    worker_line_times,
    worker_lines,
)
from lightning_gpuprof.analysis.savings.beside_workers import handed_tensors
from lightning_gpuprof.analysis.savings.input_pipeline import HANDED_TENSORS
from lightning_gpuprof.units import duration, percent, shortened

MIN_FRAC = 0.1
"""A line with less of the workers' work is one of many."""
MOST_TOLD = 3
_SOURCE_WIDTH = 40


def in_workers(run: RunResults) -> str:
    """Return where workers make batches, and how that is known; empty where it is not.

    With the share of their work and what that is of a batch.
    """
    seen = worker_lines(run.notes)
    lines = [one for one in worker_line_times(run) if one.frac >= MIN_FRAC][:MOST_TOLD]
    if seen is None or not lines:
        return ""
    told = []
    for one in lines:
        source = f" `{shortened(one.source, _SOURCE_WIDTH)}`" if one.source else ""
        each = f", {duration(one.batch_ns)} a batch" if one.batch_ns is not None else ""
        told.append(f"{one.file}:{one.line}{source} ({percent(one.frac)}{each})")
    made_ns = made_in_ns(run)
    takes = "" if made_ns is None else f" A batch takes a worker about {duration(made_ns)}."
    return (
        f"By {seen.whole} samples in {processes(seen.processes)}, which waited for work in "
        f"{percent(seen.waiting_frac)} of them, their time goes to {'; '.join(told)}.{takes}"
    )


def many_tensors(run: RunResults) -> str:
    """Return what to do about batches of many tensors; empty where they are few, or not counted."""
    count = handed_tensors(run) or 0.0
    if count <= HANDED_TENSORS:
        return ""
    return (
        f"A batch is {count:.0f} tensors, each of which is handed over by itself: stack them into "
        "a few."
    )


def processes(count: int) -> str:
    """Return a number of worker processes in words.

    >>> processes(1), processes(2)
    ('1 worker process', '2 worker processes')
    """
    return f"{count} worker process{'es' * (count != 1)}"


def seen_in_workers(run: RunResults) -> dict[str, int | float]:
    """Return the same as evidence."""
    seen = worker_lines(run.notes)
    if seen is None:
        return {}
    found: dict[str, int | float] = {
        "worker_samples_count": seen.whole,
        "worker_waiting_frac": seen.waiting_frac,
    }
    made_ns = made_in_ns(run)
    if made_ns is not None:
        found["worker_batch_ns"] = made_ns
    return found
