"""Finds out whether a thread waits for storage, by the kernel's files about it (Linux)."""

import os
import platform
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from lightning_gpuprof.records.lines import Reads

PROC = Path("/proc/self")
_READ_CALLS = {"x86_64": (0, 17, 19, 295), "aarch64": (63, 65, 67, 69)}.get(platform.machine(), ())
"""The numbers of read, readv, pread64 and preadv, whose first argument is the file."""
_OPEN_CALLS = {
    "x86_64": (2, 4, 5, 6, 217, 257, 262, 332),
    "aarch64": (56, 61, 79, 80, 291),
}.get(platform.machine(), ())
"""The numbers of open, stat and similar calls, and of getdents64."""


class StorageWaits(NamedTuple):
    """How often samples of a thread waited for storage, and what the thread has read."""

    blocked: int | None = None
    """The number of samples; None if the kernel does not say."""
    filesystem: str | None = None
    """The type of the file system that was waited for most often."""
    read: Reads | None = None


def waits_for_storage(thread: int, proc: Path = PROC) -> str | None:
    """Return the path of the file that a thread of this process waits for.

    The path is empty if the thread waits for storage and the file is unknown. None if the thread
    runs, or waits for something else. The kernel names the system call only of a thread that waits.
    """
    task = proc / "task" / str(thread)
    try:
        number, first_argument = (task / "syscall").read_text(encoding="ascii").split()[:2]
        if int(number) in _READ_CALLS:
            path = os.readlink(proc / "fd" / str(int(first_argument, 16)))
            return path if path.startswith("/") else None  # otherwise it is a pipe or a socket
        stat = (task / "stat").read_text(encoding="utf-8", errors="replace")
        # State D is an uninterruptible sleep, for example until a page of a file is read.
        is_uninterruptible = stat.rpartition(")")[2].split()[0] == "D"
        return "" if is_uninterruptible or int(number) in _OPEN_CALLS else None
    except (OSError, ValueError, IndexError):
        return None


def filesystem_of(path: str, proc: Path = PROC) -> str:
    """Return the type of the file system that holds a file, such as nfs4; empty if unknown."""
    if not path:
        return ""
    longest_mount, filesystem = "", ""
    try:
        lines = (proc / "mountinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        for line in lines:
            fields = line.split()
            mount = fields[4]
            is_above = f"{path}/".startswith(mount.rstrip("/") + "/")
            if is_above and len(mount) > len(longest_mount):
                longest_mount, filesystem = mount, fields[fields.index("-") + 1]
    except (OSError, ValueError, IndexError):
        return ""
    return filesystem


def storage_waits(blocked: Counter[str], thread: int, before: Reads | None) -> StorageWaits:
    """Sum up the storage waits of a thread.

    Args:
        blocked: The number of samples that waited for storage, by file system.
        thread: The native id of the thread.
        before: What the thread had read when the sampling began.
    """
    now = reads_so_far(thread)
    if now is None:
        return StorageWaits()
    filesystems = (filesystem for filesystem, _ in blocked.most_common() if filesystem)
    return StorageWaits(
        blocked=blocked.total(),
        filesystem=next(filesystems, None),
        read=None if before is None else now.since(before),
    )


def reads_so_far(thread: int, proc: Path = PROC) -> Reads | None:
    """Return what a thread of this process has read so far, or None if the kernel does not say."""
    try:
        words = (proc / "task" / str(thread) / "io").read_text(encoding="ascii").split()
        return Reads(time.perf_counter_ns(), int(words[1]), int(words[5]))
    except (OSError, ValueError, IndexError):
        return None
