"""Reads the traces of a job's ranks: one at a time in a process, in a process per core."""

import multiprocessing
import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path

from lightning_gpuprof.analysis.job.job_tables import JobTraces
from lightning_gpuprof.analysis.job.job_traces import job_traces
from lightning_gpuprof.analysis.job.rank_trace import RankTrace, rank_trace
from lightning_gpuprof.errors import GpuProfError, TraceError
from lightning_gpuprof.records.files import is_trace
from lightning_gpuprof.traces.kineto.collectives import JobRank, job_rank

_TRACE = re.compile(r"\.json(?:\.gz)?$")
_RANK = re.compile(r"rank[-_ ]?\d+")
MOST_PROCESSES = 6
"""Each holds one rank's trace in memory: some 75 MB for one of 50 MB."""


@dataclass(frozen=True)
class JobFiles:
    """The trace files of one job.

    Args:
        ranks: By file, the rank that wrote it.
        unread: Of other files beside them that look like traces, why they are not read.
    """

    ranks: Mapping[str, JobRank]
    unread: tuple[str, ...] = ()

    @property
    def world_size(self) -> int:
        """How many ranks the job has."""
        return next(iter(self.ranks.values())).world_size


def job_files(paths: Sequence[str]) -> JobFiles | None:
    """Return the traces of one job, or None if these are other files.

    They are of one job if at least two ranks wrote them, and all give the job the same size. If a
    rank recorded several windows, as with `schedule(repeat=2)`, it is the last window that most
    ranks have. The same rank in several folders is of several jobs.

    Args:
        paths: Trace files, or folders of them.
    """
    ranks: dict[str, JobRank] = {}
    unread: list[str] = []
    for path in (file for given in paths for file in _files(given)):
        try:
            rank = job_rank(path)
        except GpuProfError as error:
            unread.append(str(error))
            continue
        if rank is None:
            unread.append(f"{path} does not say which rank of the job wrote it.")
        elif rank.world_size > 1:
            ranks[path] = rank
    folders = {(rank.rank, os.path.dirname(path)) for path, rank in ranks.items()}
    numbers = {rank.rank for rank in ranks.values()}
    sizes = {rank.world_size for rank in ranks.values()}
    if len(numbers) < 2 or len(sizes) > 1 or len(folders) > len(numbers):
        return None
    window = _last_window(ranks)
    if len(window) < len(ranks):
        unread.append(
            f"Ranks recorded several windows: {len(ranks) - len(window)} traces of others than "
            "the last are not read. To read these, give their files."
        )
    return JobFiles(window, tuple(unread))


def _last_window(ranks: Mapping[str, JobRank]) -> dict[str, JobRank]:
    """Return one trace of each rank: the last whose name, but for the rank, most ranks have.

    Where the names of no two ranks match, such as names with the time, it is each rank's last.
    """
    of_window: dict[str, dict[int, str]] = defaultdict(dict)
    last: dict[int, str] = {}
    for path in sorted(ranks, key=_natural_key):
        rank = ranks[path].rank
        of_window[_RANK.sub("rank", os.path.basename(path))][rank] = path
        last[rank] = path
    most = max(map(len, of_window.values()))
    window = [paths for paths in of_window.values() if len(paths) == most][-1]
    chosen = window if most > 1 else last
    return {path: ranks[path] for _, path in sorted(chosen.items())}


def _natural_key(path: str) -> list[tuple[int, str]]:
    """Return a key that sorts `cycle10` after `cycle9`."""
    parts = re.split(r"(\d+)", os.path.basename(path))
    return [(int(part), "") if part.isdecimal() else (0, part) for part in parts]


def _files(path: str) -> list[str]:
    if not os.path.isdir(path):
        return [path]
    names = sorted(os.listdir(path))
    # Beside the traces of torch.profiler's own names lie what was made of them, as JSON too.
    traces = [name for name in names if is_trace(name)] or filter(_TRACE.search, names)
    return [os.path.join(path, name) for name in traces]


def read_job(
    files: JobFiles,
    *,
    progress: Callable[[int, int], None] | None = None,
    processes: int | None = None,
) -> JobTraces:
    """Read the traces of a job's ranks and compare them.

    Args:
        files: Which files, of which ranks.
        progress: Called with the number of traces that are read, and of all.
        processes: How many read at once; by default as many as there are cores, at most 6.

    Raises:
        TraceError: None of the traces can be read, or a process that reads one was killed.
    """
    number = min(processes or os.cpu_count() or 1, MOST_PROCESSES, len(files.ranks))
    given = [(path, rank.rank) for path, rank in files.ranks.items()]
    traces: list[RankTrace] = []
    unread = list(files.unread)
    for done, outcome in enumerate(_outcomes(given, number), start=1):
        if isinstance(outcome, str):
            unread.append(outcome)
        else:
            traces.append(outcome)
        if progress is not None:
            progress(done, len(given))
    if not traces:
        raise TraceError(f"No rank's trace can be read. {unread[0]}")
    return job_traces(traces, files.world_size, unread)


def _outcomes(given: Sequence[tuple[str, int]], number: int) -> Iterator[RankTrace | str]:
    if number == 1:
        yield from map(_read, given)
        return
    # A fresh interpreter per worker: a fork would copy the threads of whoever calls.
    context = multiprocessing.get_context("spawn")
    try:
        with ProcessPoolExecutor(number, mp_context=context) as pool:
            yield from pool.map(_read, given)
    except BrokenProcessPool as error:
        raise TraceError(
            "A process that read a rank's trace was killed, most likely for want of memory. "
            "Give fewer files, or shorter traces."
        ) from error


def _read(given: tuple[str, int]) -> RankTrace | str:
    """Return a rank's trace, or why it cannot be read."""
    path, rank = given
    try:
        return rank_trace(path, rank, Path(path).name)
    except GpuProfError as error:
        return str(error)
