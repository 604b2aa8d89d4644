"""The lines at which worker processes were sampled while they made batches."""

from dataclasses import dataclass
from math import sqrt

from lightning_gpuprof.analysis.run.line_samples import SampledLine, group_by_line
from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.records.lines import HostLines
from lightning_gpuprof.records.phases import Phase

MOSTLY = 0.5
MIN_SAMPLES = 20
"""Fewer samples of the workers do not show how long a batch takes."""


@dataclass(frozen=True, kw_only=True)
class WorkerLineTime(SampledLine):
    """A line's share of the time in which workers make batches."""

    batch_ns: int | None
    """The time at the line per batch; None if unknown."""


def batch_lines(run: RunResults) -> HostLines | None:
    """Return the samples of what makes the batches: worker processes, or the training thread.

    If only some of several loaders have workers, both may make batches. The training thread's
    samples are chosen if most of those in `data_wait` are at the user's own lines.
    """
    host, workers = run.lines, run.loader.workers
    if workers is None or not workers.work:
        return host
    if run.start.loader is None and host is not None:
        own = sum(samples.count for samples in host.of(Phase.DATA_WAIT))
        if own > MOSTLY * host.by_phase.get(Phase.DATA_WAIT.value, 0):
            return host
    return workers.as_lines


def storage_frac(run: RunResults) -> float | None:
    """Return the share of the time for making batches that waits for storage; None if unknown."""
    workers, host = run.loader.workers, run.lines
    if workers is not None and workers.work:
        return None if workers.blocked is None else workers.blocked / workers.work
    whole = host.by_phase.get(Phase.DATA_WAIT.value, 0) if host is not None else 0
    return None if host is None or host.blocked is None or not whole else host.blocked / whole


def asleep_frac(run: RunResults) -> float | None:
    """Return the share of the workers' work in which they neither computed nor waited for a core.

    They slept, or waited for a network or another process. CPU time counts that of all threads of
    a worker, wherever it was spent, so that the share is a lower bound.
    """
    workers = run.loader.workers
    if workers is None or workers.cpu is None or not workers.work:
        return None
    worked_ns = workers.cpu.wall_ns * workers.work / workers.whole
    return max(0.0, 1.0 - (workers.cpu.used_ns + workers.cpu.queued_ns) / max(1.0, worked_ns))


def batch_reads(run: RunResults) -> tuple[int, int] | None:
    """Return the bytes that are read to make a batch, and in how many calls; None if unknown.

    A step takes a batch, so all workers together read that much per step.
    """
    workers, host, loader = run.loader.workers, run.lines, run.start.loader
    in_workers = workers is not None and bool(workers.work)
    read = workers.read if in_workers and workers else host.read if host else None
    if read is None or loader is None or not read.wall_ns or not run.step_ns:
        return None
    steps = read.wall_ns / run.step_ns / ((loader.num_workers or 1) if in_workers else 1)
    return round(read.size_bytes / steps), round(read.calls / steps)


def made_in_ns(run: RunResults) -> int | None:
    """Return how long a worker takes to make a batch; None if unknown.

    A step takes a batch, so per step all workers together work for that long: the mean step, times
    the number of workers, times the share of the samples in which they worked.
    """
    workers = run.loader.workers
    return _made_ns(run, workers.work) if workers is not None and workers.work else None


def made_at_most_ns(run: RunResults) -> int | None:
    """Return how long a worker takes to make a batch at most; None if too few samples show it.

    The count of samples is a Poisson variable; its bound is exceeded about once in forty times.
    Workers that were never sampled at work make a batch in next to no time.
    """
    workers = run.loader.workers
    if workers is None or workers.whole < MIN_SAMPLES:
        return None
    return _made_ns(run, min(workers.whole, workers.work + 2 * sqrt(workers.work) + 2))


def _made_ns(run: RunResults, work: float) -> int | None:
    """Return the time for a batch if so many of the workers' samples were work."""
    workers, loader = run.loader.workers, run.start.loader
    if workers is None or loader is None or not loader.num_workers or not run.step_ns:
        return None
    return round(loader.num_workers * run.step_ns * work / workers.whole)


def longer_here(run: RunResults, wait_ns: int) -> bool:
    """Return whether making a batch in the training process takes longer than waiting for it."""
    least_ns = made_here_ns(run)
    return least_ns is not None and least_ns >= wait_ns


def made_here_ns(run: RunResults) -> int | None:
    """Return how long the training process would take to make a batch at least; None if unknown.

    A worker takes longer by at most the factor by which there are more processes than cores.
    """
    made_ns, loader, cores = made_in_ns(run), run.start.loader, run.cores
    if made_ns is None or loader is None or not loader.num_workers or not cores:
        return None
    return round(made_ns / max(1.0, (loader.num_workers + 1) / cores))


def worker_line_times(run: RunResults) -> tuple[WorkerLineTime, ...]:
    """Return the sampled lines of the program in workers, those with the most samples first."""
    workers = run.loader.workers
    if workers is None or not workers.work:
        return ()
    batch_ns = made_in_ns(run)
    times = []
    for samples in group_by_line(workers.lines):
        most, frac = samples.most, samples.count / workers.work
        low_frac, high_frac = workers.as_lines.interval(samples.by_callee, Phase.DATA_WAIT)
        times.append(
            WorkerLineTime(
                file=most.file,
                line=most.line,
                function=most.function,
                source=most.source,
                callee=most.callee,
                count=samples.count,
                frac=frac,
                low_frac=low_frac,
                high_frac=high_frac,
                batch_ns=None if batch_ns is None else round(frac * batch_ns),
            )
        )
    return tuple(sorted(times, key=lambda line: -line.count))
