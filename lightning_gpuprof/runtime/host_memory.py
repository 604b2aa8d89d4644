"""Reads from /proc and from control groups how much memory processes use and the machine has left.

All sizes are bytes. Nothing here imports torch, and all of it may run in any thread.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

PROC, CGROUP_ROOT = Path("/proc"), Path("/sys/fs/cgroup")
_KIB, _UNLIMITED = 1024, 1 << 60
"""Control groups of version 1 write a number beyond all memory where there is no limit."""


class ProcessPages(NamedTuple):
    """The memory of a process, as the kernel counts its pages."""

    private_bytes: int
    """Pages that no other process uses."""
    anonymous_bytes: int
    """Pages that belong to no file, shared or not. A forked process shares them with its parent
    until either of them writes to a page, which gives the writer a copy of its own."""


def process_pages(pid: int, proc: Path = PROC) -> ProcessPages | None:
    """Return the memory of a process, or None if the process has ended.

    The kernel walks the page table of the process, which takes about 20 ms per GiB.

    Raises:
        OSError: The system has no such figures, or does not show them to this process.
    """
    folder = proc / str(pid)
    try:
        text = (folder / "smaps_rollup").read_text(encoding="ascii")
    except ProcessLookupError:
        return None
    except FileNotFoundError:
        if folder.exists() or not proc.exists():
            raise
        return None
    kib = {}
    for line in text.splitlines():
        name, _, rest = line.partition(":")
        if rest.endswith(" kB"):
            kib[name] = int(rest.split()[0])
    if "Private_Dirty" not in kib:  # a process that has ended and was not waited for
        return None
    private_kib = sum(kib.get(name, 0) for name in ("Private_Clean", "Private_Dirty"))
    return ProcessPages(_KIB * private_kib, _KIB * kib.get("Anonymous", 0))


def available_bytes(proc: Path = PROC, root: Path = CGROUP_ROOT) -> int | None:
    """Return how much more memory this process can use; None on systems without /proc.

    That is what the machine has available or, if it is less, what the limits of the process's
    control groups leave.
    """
    try:
        lines = (proc / "meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    machine = (_KIB * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:"))
    return min((*machine, *_left_by_groups(proc, root)), default=None)


def _left_by_groups(proc: Path, root: Path) -> Iterator[int]:
    """Yield what each control group of the process with a limit leaves, version 2 or 1."""
    try:
        lines = (proc / "self" / "cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return
    for line in lines:
        number, controllers, path = line.split(":", 2)
        if number == "0":
            names = ("memory.max", "memory.current", "inactive_file")
            folder = root
        elif "memory" in controllers.split(","):
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
            folder = root / "memory"
        else:
            continue
        own = folder / path.lstrip("/")
        for group in (own, *own.parents):
            if group.is_relative_to(folder) and (left := _left_by(group, *names)) is not None:
                yield left


def _left_by(group: Path, limit: str, usage: str, cache: str) -> int | None:
    """Return what a group's limit leaves; None without a limit.

    Pages of files that were not used lately count as free, since the kernel drops them when it
    needs memory.
    """
    try:
        most = int((group / limit).read_text(encoding="ascii"))
        if most >= _UNLIMITED:
            return None
        used = int((group / usage).read_text(encoding="ascii"))
        stat = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        return max(0, most - used + int(stat.get(cache, 0)))
    except (OSError, ValueError):  # also if the limit is "max"
        return None
