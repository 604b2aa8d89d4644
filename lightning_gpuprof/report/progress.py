"""Shows on stderr how far a long task has come."""

import sys
import time
from collections.abc import Callable
from typing import TextIO

_BAR_WIDTH = 40


class Progress:
    """A progress bar that appears if the work takes long; a single line without a terminal."""

    def __init__(
        self,
        label: str,
        *,
        after_s: float = 2.0,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._label = label
        self._stream = stream or sys.stderr
        self._clock = clock
        self._from_s = clock() + after_s
        self._shown = ""

    def __call__(self, done: int, total: int) -> None:
        """Show that `done` units of work out of `total` are done."""
        if self._clock() < self._from_s or getattr(self._stream, "closed", True):
            return
        if not self._stream.isatty():
            self._show(f"{self._label}\n")
            return
        filled = _BAR_WIDTH * done // total if total else _BAR_WIDTH
        bar = f"{self._label} [{'#' * filled}{'.' * (_BAR_WIDTH - filled)}]"
        self._show(f"\r{bar}" if filled < _BAR_WIDTH else "\r\033[K")

    def _show(self, text: str) -> None:
        if text != self._shown:
            self._shown = text
            self._stream.write(text)
            self._stream.flush()
