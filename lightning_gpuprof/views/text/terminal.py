"""What a stream can show: how many columns, in which colours."""

import os
from collections.abc import Callable
from contextlib import suppress
from typing import TextIO

WIDTH = 100
"""Columns where nothing says how many there are, as in a pipe."""
NARROWEST = 40
_CODES = {"bold": 1, "dim": 2, "red": 31, "green": 32, "yellow": 33, "cyan": 36}
Style = Callable[[str, str], str]


def is_colored(stream: TextIO) -> bool:
    """Tell whether a stream gets colours: NO_COLOR and FORCE_COLOR decide before the terminal."""
    if os.environ.get("NO_COLOR"):
        return False
    forced = os.environ.get("FORCE_COLOR", "")
    return forced not in ("", "0") or (stream.isatty() and os.environ.get("TERM") != "dumb")


def columns(stream: TextIO) -> int:
    """Return the width of a terminal, as COLUMNS or the system tells it."""
    told = os.environ.get("COLUMNS", "")
    found = int(told) if told.isdecimal() else 0
    with suppress(OSError, ValueError, AttributeError):
        found = found or os.get_terminal_size(stream.fileno()).columns
    return max(NARROWEST, found or WIDTH)


def no_style(text: str, style: str) -> str:
    """Return text without its style: for a pipe, a file, Markdown."""
    return text


def colored(text: str, style: str) -> str:
    r"""Return text in a style of several words, for a terminal.

    >>> colored("GPU", "bold red"), colored("GPU", "")
    ('\x1b[1;31mGPU\x1b[0m', 'GPU')
    """
    codes = ";".join(str(_CODES[name]) for name in style.split())
    return f"\033[{codes}m{text}\033[0m" if codes else text


def style_for(stream: TextIO) -> Style:
    """Return how text is styled for a stream."""
    return colored if is_colored(stream) else no_style
