"""Names and places of a run's files, and the file operations that reading them needs."""

import errno
import os
import re
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import BinaryIO

PLUGIN_DIR = os.path.join("plugins", "gpuprof")
"""Under the run's log dir, where TensorBoard's convention puts the files of a plugin."""
TRACE_SUFFIX, PLAIN_TRACE_SUFFIX = ".pt.trace.json.gz", ".pt.trace.json"
ANALYSIS_SUFFIX = ".analysis.json"
SNAPSHOT_SUFFIX = ".memory.pickle"
KINDS_SUFFIX = ".kinds.json"
"""Of the file beside a memory snapshot with the addresses of parameters, gradients and so on."""
LAYOUT_SUFFIX = ".layout"
"""Appended to a trace file's name: its events laid out in lanes, for the tab's timeline."""
JOB_NAME = "ranks.job.json"
"""What all ranks' traces in a folder say together."""
_RECORD_NAME = re.compile(r"rank([0-9]{1,6})\.jsonl")
MOST_BYTES = 1 << 28
"""The largest file that is read as a whole."""


def record_name(rank: int) -> str:
    """Return the record file's name for a rank."""
    return f"rank{rank}.jsonl"


def trace_name(rank: int, session: int, cycle: int, capture: int | None = None) -> str:
    """Return a trace file's name, which names the session too from the second session on.

    The window of a capture is named after the capture.

    >>> trace_name(0, 0, 2), trace_name(1, 1, 0)
    ('rank0-cycle2.pt.trace.json.gz', 'rank1-session1-cycle0.pt.trace.json.gz')
    >>> trace_name(0, 0, 3, capture=0)
    'rank0-capture0.pt.trace.json.gz'
    """
    part = f"-session{session}" if session else ""
    window = f"cycle{cycle}" if capture is None else f"capture{capture}"
    return f"rank{rank}{part}-{window}{TRACE_SUFFIX}"


def is_trace(name: str) -> bool:
    """Return whether a file name is that of a trace that the callback wrote."""
    return name.endswith((TRACE_SUFFIX, PLAIN_TRACE_SUFFIX))


def file_state(
    path: str, status_of: Callable[[str], os.stat_result] = os.stat
) -> tuple[int, int, int] | None:
    """Return what changes when a file is replaced; None if there is none."""
    try:
        status = status_of(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ino, status.st_size


def snapshot_name(rank: int, session: int, step: int, reason: str) -> str:
    """Return the file name of a memory snapshot.

    >>> snapshot_name(0, 0, 120, "oom"), snapshot_name(1, 2, 5, "window")
    ('rank0-step120-oom.memory.pickle', 'rank1-session2-step5-window.memory.pickle')
    """
    part = f"-session{session}" if session else ""
    return f"rank{rank}{part}-step{step}-{reason}{SNAPSHOT_SUFFIX}"


def open_file(path: str, most: int | None = None) -> BinaryIO:
    """Open a regular file for reading.

    Raises:
        OSError: The file is longer than `most` bytes, or not a regular file: opening a pipe would
            wait for a writer, and a device may have no end.
    """
    # Without O_NONBLOCK, opening a FIFO waits until another process opens it for writing.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    descriptor = os.open(path, flags)
    status = os.fstat(descriptor)
    reason = "" if stat.S_ISREG(status.st_mode) else "not a regular file"
    if most is not None and status.st_size > most:
        reason = f"longer than {most >> 20} MiB"
    if reason:
        os.close(descriptor)
        raise OSError(errno.EINVAL, reason, path)
    return open(descriptor, "rb")


class FileSystem:
    """The file operations that readers need, on local disks; subclasses read remote ones."""

    def exists(self, path: str) -> bool:
        """Return whether a file or folder exists."""
        return os.path.exists(path)

    def listdir(self, path: str) -> list[str]:
        """Return the sorted names in a folder; an empty list if it does not exist."""
        return sorted(os.listdir(path)) if os.path.isdir(path) else []

    def read_bytes(self, path: str, most: int = MOST_BYTES) -> bytes:
        """Return a file's content; raise `OSError` if it is longer than `most` bytes."""
        with open_file(path, most) as file:
            return file.read()

    def read_range(self, path: str, start: int, length: int) -> bytes:
        """Return up to `length` bytes from `start`."""
        with open_file(path) as file:
            file.seek(start)
            return file.read(length)

    def size(self, path: str) -> int:
        """Return a file's length in bytes."""
        return os.path.getsize(path)


LOCAL = FileSystem()


def plugin_dir(run: str) -> str:
    """Return the plugin's folder in a run's log dir; accepts that folder itself too.

    >>> plugin_dir("logs/version_0/"), plugin_dir("s3://bucket/run/plugins/gpuprof")
    ('logs/version_0/plugins/gpuprof', 's3://bucket/run/plugins/gpuprof')
    """
    run = os.fspath(run)
    run = run.rstrip("/") if "://" in run else os.path.normpath(run)
    return run if run.endswith(PLUGIN_DIR) else os.path.join(run, PLUGIN_DIR)


def written_unix_ns(folder: str, names: Sequence[str], fs: FileSystem = LOCAL) -> int:
    """Return when the newest of some files was written; 0 if there is none, or on remote disks."""
    times = [0]
    for name in names if fs is LOCAL else ():
        with suppress(OSError):  # deleted since it was listed
            times.append(os.stat(os.path.join(folder, name)).st_mtime_ns)
    return max(times)


def run_folder(run: str, fs: FileSystem = LOCAL) -> str:
    """Return the folder of a run's files: `plugin_dir`, or `run` if it holds only traces."""
    only_traces = not record_files(run, fs) and any(map(is_trace, fs.listdir(run)))
    return run if only_traces else plugin_dir(run)


def record_files(run: str, fs: FileSystem = LOCAL) -> dict[int, str]:
    """Return the paths of a run's record files by rank; empty if it has none."""
    folder = plugin_dir(run)
    paths = {}
    for name in fs.listdir(folder):
        if match := _RECORD_NAME.fullmatch(name):
            paths[int(match[1])] = os.path.join(folder, name)
    return dict(sorted(paths.items()))


@contextmanager
def written_whole(path: str) -> Iterator[str]:
    """Write a file so that it never exists in part.

    Yields the path of a temporary file to write, which is renamed to `path` at the end, or deleted
    if an error occurs.
    """
    part = f"{path}.{os.getpid()}.part"
    try:
        yield part
        os.replace(part, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(part)
        raise


def top_runs(root: str, *, most_depth: int | None = None) -> list[str]:
    """Return the runs at or under a folder, without evaluations in the folder of a fit."""
    runs = list(find_runs(root, most_depth=most_depth))
    inner = {os.path.join(run, name) for run in runs for name in ("validate", "test", "predict")}
    return [run for run in runs if run not in inner]


def newest_trace(root: str) -> str | None:
    """Return the trace at or under a folder that was written last; None if there is none."""
    folders = find_runs(root, traces=True)
    traces = [os.path.join(folder, name) for folder in folders for name in os.listdir(folder)]
    written = [trace for trace in traces if is_trace(trace) and os.path.isfile(trace)]
    return max(written, key=os.path.getmtime, default=None)


def find_runs(root: str, *, traces: bool = False, most_depth: int | None = None) -> Iterator[str]:
    """Yield the log dirs at or under a folder that hold record files, or with `traces` also traces.

    With `most_depth`, only those that lie at most so many folders below it.
    Links are followed, as TensorBoard does. A folder that is reached twice is yielded once, under
    its own path if that is below `root`.
    """
    visited = set()
    for folder, subfolders, files in os.walk(root, followlinks=True):
        real = os.path.realpath(folder)
        if real in visited:
            subfolders.clear()
            continue
        visited.add(real)
        names = sorted(name for name in subfolders if name != "plugins")
        subfolders[:] = sorted(names, key=lambda name: os.path.islink(os.path.join(folder, name)))
        if most_depth is not None and folder[len(root) :].count(os.sep) >= most_depth:
            subfolders.clear()
        with suppress(OSError):  # a folder that may not be read is left out
            if record_files(folder) or (traces and any(map(is_trace, files))):
                yield folder
