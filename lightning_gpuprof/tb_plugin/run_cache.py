"""Keeps the runs last looked at, until their files grow."""

import os
import threading
from collections import OrderedDict

from lightning_gpuprof.records.files import (
    ANALYSIS_SUFFIX,
    DRAWING_SUFFIX,
    LOCAL,
    TRACE_SUFFIX,
    FileSystem,
    plugin_dir,
)
from lightning_gpuprof.views.tab.loaded_run import LoadedRun

KEPT = 4
"""Two runs compared, and the two before them; a million steps take some 150 MB."""
KINDS = (".jsonl", TRACE_SUFFIX, ANALYSIS_SUFFIX, DRAWING_SUFFIX)
"""Whole files; those that are only being written have other names."""

_State = tuple[tuple[str, tuple[int, int]], ...]


class RunCache:
    """Hands out `LoadedRun`s, one for all requests until a file of the run changes.

    Records are only ever appended to and traces only added, so sizes tell every change of theirs.
    An analysis may be made anew, and be as long as before: on this machine's disks the time of
    change tells that; elsewhere nobody makes it anew.
    """

    def __init__(self, kept: int = KEPT) -> None:
        self._kept = kept
        self._lock = threading.Lock()
        self._runs: OrderedDict[str, tuple[_State, LoadedRun]] = OrderedDict()

    def get(self, name: str, path: str, root: str, fs: FileSystem) -> LoadedRun:
        """Return the run at a path below a root as it is on disk now."""
        state = _fingerprint(path, fs)
        with self._lock:
            known = self._runs.get(path)
            if known is None or known[0] != state:
                known = (state, LoadedRun(path, fs=fs, name=name, root=root))
                self._runs[path] = known
            self._runs.move_to_end(path)
            while len(self._runs) > self._kept:
                self._runs.popitem(last=False)
            return known[1]


def _fingerprint(path: str, fs: FileSystem) -> _State:
    folder = plugin_dir(path)
    names = [name for name in fs.listdir(folder) if name.endswith(KINDS)]
    return tuple((name, _state_of(os.path.join(folder, name), fs)) for name in names)


def _state_of(path: str, fs: FileSystem) -> tuple[int, int]:
    if fs is not LOCAL:
        return fs.size(path), 0
    stat = os.stat(path)
    return stat.st_size, stat.st_mtime_ns
