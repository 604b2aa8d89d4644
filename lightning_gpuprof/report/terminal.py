"""What a stream can show: how many columns, in which colours."""

import os
import re
from contextlib import suppress
from dataclasses import dataclass
from textwrap import wrap
from typing import TextIO

WIDTH = 100
"""Columns where nothing says how many there are, as in a pipe."""
NARROWEST = 40
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_CODES = {"bold": 1, "dim": 2, "red": 31, "green": 32, "yellow": 33, "cyan": 36}


def printable(text: str) -> str:
    r"""Replace the characters that would steer a terminal; names come from anywhere.

    >>> printable("a\x1b[31mb\x07\n")
    'a?[31mb?\n'
    """
    return _CONTROLS.sub("?", text)


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


@dataclass(frozen=True)
class Terminal:
    """What text is shown on; without a width nothing is wrapped, as in a pipe or a file."""

    width: int | None = None
    color: bool = False

    @classmethod
    def of(cls, stream: TextIO) -> "Terminal":
        """Return what a stream is."""
        wraps = stream.isatty() or os.environ.get("COLUMNS")
        return cls(columns(stream) if wraps else None, is_colored(stream))

    def styled(self, text: str, style: str) -> str:
        r"""Return text in a style of several words.

        >>> Terminal(color=True).styled("GPU", "bold red"), Terminal().styled("GPU", "bold")
        ('\x1b[1;31mGPU\x1b[0m', 'GPU')
        """
        codes = ";".join(str(_CODES[name]) for name in style.split())
        return f"\033[{codes}m{text}\033[0m" if codes and self.color else text

    def wrapped(self, text: str, style: str = "") -> str:
        r"""Return text in lines of the width, those after the first below its first word.

        >>> Terminal(12).wrapped("  Pin its memory.")
        '  Pin its\n  memory.'
        """
        indent = " " * (len(text) - len(text.lstrip()))
        lines = [text]
        if self.width is not None and len(text) > self.width:
            lines = wrap(
                text,
                self.width,
                subsequent_indent=indent,
                break_long_words=False,
                break_on_hyphens=False,
            )
        return "\n".join(self.styled(line, style) for line in lines)


PLAIN = Terminal()
