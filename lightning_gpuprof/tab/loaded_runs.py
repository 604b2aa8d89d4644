"""The runs that were read for requests, of which each is read on as it grows."""

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from lightning_gpuprof.records import files
from lightning_gpuprof.records.remote import fetched, is_served
from lightning_gpuprof.report.charts.loaded_run import LoadedRun
from lightning_gpuprof.tab.run_index import FRESH_S, file_system_for

MOST_BYTES = 1 << 29
"""The runs that were asked for before are held up to so many bytes in all. A million steps of one
rank take some 150 MB. The run that is asked for is held whatever it takes."""
RESULTS_BYTES = 1 << 22
"""Counted for the results of a run's analysis, whose size hardly depends on the run."""
State = tuple[tuple[str, tuple[int, int]], ...]


@dataclass(frozen=True)
class _Held:
    state: State
    run: LoadedRun

    @property
    def num_bytes(self) -> int:
        """About how much memory the run takes: its records, and analyses and layouts as files."""
        kinds = (files.ANALYSIS_SUFFIX, files.LAYOUT_SUFFIX)
        beside = sum(size for name, (size, _) in self.state if name.endswith(kinds))
        return RESULTS_BYTES + beside + self.run.reader.num_bytes


class LoadedRuns:
    """Returns the same object for a run until its files change, and then one that reads on.

    Args:
        most_bytes: Runs that were asked for before are dropped above so many bytes in all.
        clock: Seconds, monotonic; tests pass a fake.
    """

    def __init__(
        self, most_bytes: int = MOST_BYTES, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._most_bytes = most_bytes
        self._clock = clock
        self._copies: dict[str, tuple[float, str]] = {}
        """When the files of a URL were fetched, and where the local copy is."""
        self._lock = threading.Lock()
        self._runs: OrderedDict[tuple[str, str], _Held] = OrderedDict()
        """By name and path, the one that was asked for last at the end."""

    def of(self, name: str, path: str) -> LoadedRun:
        """Return a run as its files are now; what is new of a remote run is fetched first."""
        path = self._readable(path)
        state = state_of_run(path)
        with self._lock:
            held = self._runs.pop((name, path), None)
            self._drop()
            if held is None or held.state != state:
                reader = None if held is None else held.run.reader
                run = LoadedRun(path, fs=file_system_for(path), name=name, reader=reader)
                held = _Held(state, run)
            self._runs[name, path] = held
            return held.run

    def _readable(self, path: str) -> str:
        """Return where to read a run: a run that fsspec serves is fetched, if that is due."""
        if "://" not in path or not is_served(path):
            return path
        with self._lock:
            fetched_s, copy = self._copies.get(path, (-FRESH_S, ""))
            if self._clock() - fetched_s >= FRESH_S:
                copy = fetched(path)
                self._copies[path] = self._clock(), copy
            return copy

    def _drop(self) -> None:
        """Drop the runs that were not asked for the longest, until the others take few enough."""
        total = sum(held.num_bytes for held in self._runs.values())
        while total > self._most_bytes:
            _, dropped = self._runs.popitem(last=False)
            total -= dropped.num_bytes


def state_of_run(path: str) -> State:
    """Return size and time of change of a run's whole files; remote ones have no time.

    Records are only appended to and traces only added, so every change of theirs changes a size. An
    analysis may be made again and be as long as before: its time says so, and only on this
    machine's disks are analyses made again.
    """
    fs = file_system_for(path)
    folder = files.run_folder(path, fs)
    kinds = (".jsonl", files.ANALYSIS_SUFFIX, files.LAYOUT_SUFFIX, files.JOB_NAME)
    names = [name for name in fs.listdir(folder) if name.endswith(kinds) or files.is_trace(name)]
    return tuple((name, _state_of_file(os.path.join(folder, name), fs)) for name in names)


def _state_of_file(path: str, fs: files.FileSystem) -> tuple[int, int]:
    if fs is not files.LOCAL:
        return fs.size(path), 0
    try:
        stat = os.stat(path)
    except OSError:  # gone, or a link to nowhere
        return 0, 0
    return stat.st_size, stat.st_mtime_ns
