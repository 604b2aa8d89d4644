"""What a stream can show: how many columns, and whether colours."""

import os
from contextlib import suppress
from typing import TextIO

WIDTH = 100
"""The number of columns if it is unknown, as in a pipe."""
NARROWEST = 40


def is_colored(stream: TextIO) -> bool:
    """Return whether a stream gets colours: NO_COLOR and FORCE_COLOR decide before the terminal."""
    if os.environ.get("NO_COLOR"):
        return False
    forced = os.environ.get("FORCE_COLOR", "")
    return forced not in ("", "0") or (stream.isatty() and os.environ.get("TERM") != "dumb")


def columns(stream: TextIO) -> int:
    """Return the width of a terminal, as COLUMNS or the system says."""
    setting = os.environ.get("COLUMNS", "")
    width = int(setting) if setting.isdecimal() else 0
    with suppress(OSError, ValueError, AttributeError):
        width = width or os.get_terminal_size(stream.fileno()).columns
    return max(NARROWEST, width or WIDTH)
