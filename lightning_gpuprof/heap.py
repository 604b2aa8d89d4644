"""How this process's C heap treats large blocks of memory."""

import ctypes
import sys

_M_MMAP_THRESHOLD = -3
_LARGE = 1 << 22
"""Far more than a block of a file takes, so that those are used again without new pages."""
ANALYSED = 1 << 20
"""The same of analyses, which go through smaller blocks."""


def give_back_large_blocks(above: int = _LARGE) -> None:
    """Let large arrays go back to the system as soon as they are freed.

    glibc does so at first, and keeps ever larger ones for later the more it is given back: up to
    32 MB each, which a process that works through large arrays once never uses again.
    """
    if sys.platform == "linux":
        # Other C libraries of Linux have no such setting, and need none.
        set_option = getattr(ctypes.CDLL(None), "mallopt", None)
        if set_option is not None:
            set_option(_M_MMAP_THRESHOLD, above)


def give_back_free_memory() -> None:
    """Let all that is free go back to the system: a forked process would hold it twice."""
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)
