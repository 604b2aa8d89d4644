"""Where a run's files lie, and the little of a file system that reading them takes."""

import errno
import os
import re
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import BinaryIO

PLUGIN_DIR = os.path.join("plugins", "gpuprof")
"""Under the run's log dir; TensorBoard's own convention for what a plugin keeps."""
TRACE_SUFFIX, PLAIN_TRACE_SUFFIX = ".pt.trace.json.gz", ".pt.trace.json"
ANALYSIS_SUFFIX = ".analysis.json"
SNAPSHOT_SUFFIX = ".memory.pickle"
KINDS_SUFFIX = ".kinds.json"
"""Beside a memory snapshot: the addresses of what is known to be of a kind."""
LAYOUT_SUFFIX = ".layout"
"""After a trace file's name: its events laid out in lanes, for the tab's timeline."""
_RECORD_NAME = re.compile(r"rank([0-9]{1,6})\.jsonl")
MOST_BYTES = 1 << 28
"""Of a file that is read as a whole."""


def record_name(rank: int) -> str:
    """Return the record file's name for a rank."""
    return f"rank{rank}.jsonl"


def trace_name(rank: int, session: int, cycle: int) -> str:
    """Return the trace file's name: by rank and cycle, and by session from the second on.

    >>> trace_name(0, 0, 2), trace_name(1, 1, 0)
    ('rank0-cycle2.pt.trace.json.gz', 'rank1-session1-cycle0.pt.trace.json.gz')
    """
    part = f"-session{session}" if session else ""
    return f"rank{rank}{part}-cycle{cycle}{TRACE_SUFFIX}"


def is_trace(name: str) -> bool:
    """Tell whether a file is a trace of ours by its name."""
    return name.endswith((TRACE_SUFFIX, PLAIN_TRACE_SUFFIX))


def snapshot_name(rank: int, session: int, step: int, reason: str) -> str:
    """Return the file name of a memory snapshot, which begins like the trace files' do.

    >>> snapshot_name(0, 0, 120, "oom"), snapshot_name(1, 2, 5, "window")
    ('rank0-step120-oom.memory.pickle', 'rank1-session2-step5-window.memory.pickle')
    """
    part = f"-session{session}" if session else ""
    return f"rank{rank}{part}-step{step}-{reason}{SNAPSHOT_SUFFIX}"


def open_file(path: str, most: int | None = None) -> BinaryIO:
    """Open a regular file to read, unless it is longer than `most`.

    Others are refused: a FIFO would be waited for, and a device may have no end.
    """
    # Without O_NONBLOCK, to open a FIFO is to wait for somebody who writes.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    descriptor = os.open(path, flags)
    found = os.fstat(descriptor)
    why = "" if stat.S_ISREG(found.st_mode) else "not a regular file"
    if most is not None and found.st_size > most:
        why = f"longer than {most >> 20} MiB"
    if why:
        os.close(descriptor)
        raise OSError(errno.EINVAL, why, path)
    return open(descriptor, "rb")


class FileSystem:
    """The operations that readers need, on this machine's disks."""

    def exists(self, path: str) -> bool:
        """Tell whether a file or folder is there."""
        return os.path.exists(path)

    def listdir(self, path: str) -> list[str]:
        """Return the names in a folder, sorted; an empty list where there is none."""
        return sorted(os.listdir(path)) if os.path.isdir(path) else []

    def read_bytes(self, path: str, most: int = MOST_BYTES) -> bytes:
        """Return a file's content, unless it is longer than `most`."""
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
    """Return the folder of our files for a run's log dir; accepts that folder itself too."""
    run = os.path.normpath(run)
    return run if run.endswith(PLUGIN_DIR) else os.path.join(run, PLUGIN_DIR)


def written_unix_ns(folder: str, names: Sequence[str], fs: FileSystem = LOCAL) -> int:
    """Return when the newest of some files was written; 0 for none, and on remote disks."""
    times = [0]
    for name in names if fs is LOCAL else ():
        with suppress(OSError):  # gone since it was listed
            times.append(os.stat(os.path.join(folder, name)).st_mtime_ns)
    return max(times)


def run_folder(run: str, fs: FileSystem = LOCAL) -> str:
    """Return where a run's files are: `plugin_dir`, or the folder itself of traces alone."""
    traces_alone = not record_files(run, fs) and any(map(is_trace, fs.listdir(run)))
    return run if traces_alone else plugin_dir(run)


def record_files(run: str, fs: FileSystem = LOCAL) -> dict[int, str]:
    """Return the record file of each rank, by rank; empty where the run has none."""
    folder = plugin_dir(run)
    found = {}
    for name in fs.listdir(folder):
        if match := _RECORD_NAME.fullmatch(name):
            found[int(match[1])] = os.path.join(folder, name)
    return dict(sorted(found.items()))


@contextmanager
def written_whole(path: str) -> Iterator[str]:
    """Give the name to write a file under; it takes its own once all of it is there."""
    part = f"{path}.{os.getpid()}.part"
    try:
        yield part
        os.replace(part, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(part)
        raise


def top_runs(root: str) -> list[str]:
    """Return the runs at or under a folder, but for evaluations in the folder of a fit."""
    runs = list(find_runs(root))
    inner = {os.path.join(run, name) for run in runs for name in ("validate", "test", "predict")}
    return [run for run in runs if run not in inner]


def find_runs(root: str, *, traces: bool = False) -> Iterator[str]:
    """Yield the log dirs at or under a folder that hold records of ours, or traces alone.

    Links are followed, as TensorBoard does, but after folders: each counts once.
    """
    seen = set()
    for folder, subfolders, files in os.walk(root, followlinks=True):
        real = os.path.realpath(folder)
        if real in seen:
            subfolders.clear()
            continue
        seen.add(real)
        names = sorted(name for name in subfolders if name != "plugins")
        subfolders[:] = sorted(names, key=lambda name: os.path.islink(os.path.join(folder, name)))
        with suppress(OSError):  # what may not be read is nobody's run
            if record_files(folder) or (traces and any(map(is_trace, files))):
                yield folder
