"""The lines at which worker processes were sampled while they made batches."""

from dataclasses import dataclass

from lightning_gpuprof.analysis.run.line_times import SampledLine, sampled
from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.records.lines import HostLines
from lightning_gpuprof.records.phases import Phase

MOSTLY = 0.5


@dataclass(frozen=True, kw_only=True)
class WorkerLineTime(SampledLine):
    """The share of a worker's work in a line."""

    batch_ns: int | None
    """Its time per batch; None if unknown."""


def batch_lines(run: RunResults) -> HostLines | None:
    """Return samples of whoever makes the batches: worker processes, or the training thread.

    Of several loaders some may have workers: it is the training thread where that was mostly at
    the user's own lines while it waited for data.
    """
    host, workers = run.lines, run.loader.workers
    if workers is None or not workers.work:
        return host
    if run.start.loader is None and host is not None:
        own = sum(one.count for one in host.of(Phase.DATA_WAIT))
        if own > MOSTLY * host.by_phase.get(Phase.DATA_WAIT.value, 0):
            return host
    return workers.as_lines


def storage_frac(run: RunResults) -> float | None:
    """Return the share of making batches in which storage was waited for; None if unknown."""
    seen, host = run.loader.workers, run.lines
    if seen is not None and seen.work:
        return None if seen.blocked is None else seen.blocked / seen.work
    whole = host.by_phase.get(Phase.DATA_WAIT.value, 0) if host is not None else 0
    return None if host is None or host.blocked is None or not whole else host.blocked / whole


def batch_reads(run: RunResults) -> tuple[int, int] | None:
    """Return the bytes that are read to make a batch, and in how many calls; None if unknown.

    Each step takes one batch, so all workers together read that much in each.
    """
    seen, host, loader = run.loader.workers, run.lines, run.start.loader
    in_workers = seen is not None and bool(seen.work)
    read = seen.read if in_workers and seen else host.read if host else None
    if read is None or loader is None or not read.wall_ns or not run.step_ns:
        return None
    steps = read.wall_ns / run.step_ns / ((loader.num_workers or 1) if in_workers else 1)
    return round(read.size_bytes / steps), round(read.calls / steps)


def made_in_ns(run: RunResults) -> int | None:
    """Return what a worker takes to make one batch; None where that is not known, or too little.

    Each step takes one batch, so all workers together are at work for that long in each: the mean
    step, times the workers, times the share of the samples in which they were.
    """
    seen, workers = run.loader.workers, run.start.loader.num_workers if run.start.loader else None
    if seen is None or not seen.work or not workers or not run.step_ns:
        return None
    return round(workers * run.step_ns * seen.work / seen.whole)


def longer_here(run: RunResults, wait_ns: int) -> bool:
    """Tell whether the training process would make a batch for longer than it waits for one now."""
    least_ns = made_here_ns(run)
    return least_ns is not None and least_ns >= wait_ns


def made_here_ns(run: RunResults) -> int | None:
    """Return what the training process would take for a batch at least; None where not known.

    A worker's time for it is at most as much longer as there are more processes than cores.
    """
    made_ns, loader, cores = made_in_ns(run), run.start.loader, run.cores
    if made_ns is None or loader is None or not loader.num_workers or not cores:
        return None
    return round(made_ns / max(1.0, (loader.num_workers + 1) / cores))


def worker_line_times(run: RunResults) -> tuple[WorkerLineTime, ...]:
    """Return the lines of the program that workers were seen at, the most often seen first."""
    seen = run.loader.workers
    if seen is None or not seen.work:
        return ()
    batch_ns = made_in_ns(run)
    found = []
    for ones, about in sampled(seen.lines):
        frac = about["count"] / seen.work
        low, high = seen.as_lines.interval(ones, Phase.DATA_WAIT)
        per_batch = None if batch_ns is None else round(frac * batch_ns)
        found.append(
            WorkerLineTime(**about, frac=frac, low_frac=low, high_frac=high, batch_ns=per_batch)
        )
    return tuple(sorted(found, key=lambda one: -one.count))
