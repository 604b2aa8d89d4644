"""Puts a process behind all others: those that finish traces must not slow training down."""

import os
import sys
from contextlib import suppress

_LOWEST = 19
_FIRST_TO_GO = 1000


def step_back(pid: int) -> None:
    """Give a process of ours the lowest priority; what the system does not allow is left.

    On Linux a process in a session of its own is in an *autogroup* of its own, where that is on
    (desktops, many servers). Groups share the processors evenly, whatever the nice values inside
    them, so the group gets one too; not one that it shares, with a user's shell above all. Such a
    process's threads and children step back with it. Where memory runs out, the kernel ends this
    process first.
    """
    leads = False
    with suppress(OSError, AttributeError):
        leads = os.getsid(pid) == pid
    if hasattr(os, "setpriority"):
        with suppress(OSError):
            os.setpriority(os.PRIO_PGRP if leads else os.PRIO_PROCESS, pid, _LOWEST)
    first_to_go(pid)
    with suppress(OSError):
        if sys.platform == "linux" and leads:
            _write(pid, "autogroup", _LOWEST)


def first_to_go(pid: int) -> None:
    """Have the kernel end this process first where memory runs out."""
    with suppress(OSError):
        _write(pid, "oom_score_adj", _FIRST_TO_GO)


def cpu_share(pid: int) -> float | None:
    """Return for what share of its life a process had a core; None where no system says."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
        with open("/proc/uptime", encoding="ascii") as file:
            up_s = float(file.read().split()[0])
        ticks = os.sysconf("SC_CLK_TCK")
        used = sum(map(int, fields[11:15]))  # its own and that of its children that have ended
        lived = up_s * ticks - int(fields[19])
    except (OSError, ValueError, IndexError):
        return None
    return used / lived if lived > 0 else None


def _write(pid: int, name: str, value: int) -> None:
    with open(f"/proc/{pid}/{name}", "w", encoding="ascii") as file:
        file.write(str(value))
