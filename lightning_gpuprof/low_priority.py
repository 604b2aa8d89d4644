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
    them, so the group gets one too; not one that it shares, with a user's shell above all. Where
    memory runs out, the kernel ends this process first.
    """
    if hasattr(os, "setpriority"):
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, pid, _LOWEST)
    with suppress(OSError):
        _write(pid, "oom_score_adj", _FIRST_TO_GO)
    with suppress(OSError):
        if sys.platform == "linux" and os.getsid(pid) == pid:
            _write(pid, "autogroup", _LOWEST)


def _write(pid: int, name: str, value: int) -> None:
    with open(f"/proc/{pid}/{name}", "w", encoding="ascii") as file:
        file.write(str(value))
