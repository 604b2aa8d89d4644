"""Whether a thread waits for storage, as the kernel says (Linux)."""

import os
import platform
import time
from collections import Counter
from pathlib import Path
from typing import Any

from lightning_gpuprof.records.lines import Reads

PROC = Path("/proc/self")
_READS = {"x86_64": (0, 17, 19, 295), "aarch64": (63, 65, 67, 69)}.get(platform.machine(), ())
"""read, readv, pread64, preadv: their first argument is the file."""
_OPENS = {
    "x86_64": (2, 4, 5, 6, 217, 257, 262, 332),
    "aarch64": (56, 61, 79, 80, 291),
}.get(platform.machine(), ())
"""open, stat and their like, getdents64."""


def waits_for_storage(thread: int, proc: Path = PROC) -> str | None:
    """Return the file that a thread of this process waits for; empty where it is not known which.

    None where the thread runs, or waits for something else: the kernel tells only of one that
    waits in which call it is.
    """
    task = proc / "task" / str(thread)
    try:
        number, first = (task / "syscall").read_text(encoding="ascii").split()[:2]
        if int(number) in _READS:
            path = os.readlink(proc / "fd" / str(int(first, 16)))
            return path if path.startswith("/") else None  # a pipe, or a socket
        stat = (task / "stat").read_text(encoding="utf-8", errors="replace")
        # Asleep and uninterruptible, as on a page of a file.
        asleep = stat.rpartition(")")[2].split()[0] == "D"
        return "" if asleep or int(number) in _OPENS else None
    except (OSError, ValueError, IndexError):
        return None


def filesystem_of(path: str, proc: Path = PROC) -> str:
    """Return the type of the file system that a file is on, such as nfs4; empty where unknown."""
    found = "", ""
    try:
        lines = (proc / "mountinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        for fields in (line.split() for line in lines if path):
            if f"{path}/".startswith(fields[4].rstrip("/") + "/"):
                found = max(
                    found, (fields[4], fields[fields.index("-") + 1]), key=lambda at: len(at[0])
                )
    except (OSError, ValueError, IndexError):
        return ""
    return found[1]


def waits_seen(seen: Counter[str], thread: int, since: Reads | None) -> dict[str, Any]:
    """Return fields of a record from samples in which storage was waited for, by file system."""
    now = reads_so_far(thread)
    if now is None:
        return {}
    named = (kind for kind, _ in seen.most_common() if kind)
    read = None if since is None else now.since(since)
    return {"blocked": seen.total(), "filesystem": next(named, None), "read": read}


def reads_so_far(thread: int, proc: Path = PROC) -> Reads | None:
    """Return what a thread of this process has read so far; None where the kernel does not tell."""
    try:
        words = (proc / "task" / str(thread) / "io").read_text(encoding="ascii").split()
        return Reads(time.perf_counter_ns(), int(words[1]), int(words[5]))
    except (OSError, ValueError, IndexError):
        return None
