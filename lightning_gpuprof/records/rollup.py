"""Sums of a record file by stretches of steps, in a small file beside it: its *rollup*.

`rank<r>.rollup` has a line of JSON for every stretch of about `STRETCH_STEPS` steps, with the sums
of its columns and the places of its lines in the record file. A reader of many ranks takes means
from it, and reads only those lines of the record file that it needs. Nothing is in it alone: what
it lacks, or all of it, is folded from the record file itself.
"""

import os
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Annotated
from zlib import crc32

import msgspec
import numpy as np

from lightning_gpuprof.arrays import Int64, Mask
from lightning_gpuprof.records.schema import NOT_STEADY, StepsWindow
from lightning_gpuprof.records.step_columns import NumberedWindow, Refuse, StepColumns

ROLLUP_SUFFIX = ".rollup"
ROLLUP_VERSION = 1
STRETCH_STEPS = 500
"""The windows of so many steps are folded together: short enough to show since when a rank is late,
and long enough that the file has a hundredth of the record file's size."""
_KIND = re.compile(rb'\{"kind":"(\w{1,40})"')
_NOT_SUMMED = ("step", "epoch", "batch_idx", "start_ns", "flags", "samples")
STEPS, RUN = "steps", "run"
"""Kinds of lines: a window of steps, and the start of a session."""


Count = Annotated[int, msgspec.Meta(ge=0, lt=1 << 53)]
Sum = Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)]


class Stretch(msgspec.Struct, frozen=True, kw_only=True):
    """Consecutive lines of a record file, all of one session. Sums are over its steady steps.

    Args:
        start: Where its first line begins in the record file, in bytes.
        end: Where its last line ends.
        lines: How many lines it has.
        session_crc: CRC-32 of the line that begins the session.
        first_step: The number of its first step; 0 without steps, as `last_step`.
        steps: How many steps it has.
        steady: How many of them stand for the run (`NOT_STEADY` has none of their flags).
        marked: How many of the steady steps were timed on the device.
        median_ns: The median of the steady steps; 0 without any.
        sums: The sum of every column of times, by its name. What was not measured counts as 0.
        others: Start and length of the lines that are no steps, by their kind.
    """

    version: Count
    start: Count
    end: Count
    lines: Count
    session_crc: Count
    first_step: Count
    last_step: Count
    steps: Count
    steady: Count
    marked: Count
    median_ns: Count
    sums: dict[str, Sum]
    others: dict[str, list[tuple[Count, Count]]]


def rollup_path(record_file: str) -> str:
    """Return the path of a record file's rollup.

    >>> rollup_path("plugins/gpuprof/rank12.jsonl")
    'plugins/gpuprof/rank12.rollup'
    """
    return os.path.splitext(record_file)[0] + ROLLUP_SUFFIX


def kind_of(line: bytes) -> str:
    """Return the kind of a line; empty if it does not begin as a record does.

    >>> kind_of(b'{"kind":"steps","first_step":0}'), kind_of(b"nonsense")
    ('steps', '')
    """
    match = _KIND.match(line)
    return match[1].decode() if match else ""


def fold(
    lines: Iterable[bytes],
    start: int,
    session_crc: int,
    *,
    decode: Callable[[bytes], StepsWindow | None],
    refuse: Refuse,
    number: int = 0,
) -> Stretch:
    """Fold consecutive lines, with their newlines, into a stretch.

    Args:
        lines: The lines.
        start: Where the first of them begins in the record file.
        session_crc: CRC-32 of the session's first line.
        decode: Returns the window of a line of steps; None if it cannot be read.
        refuse: Called with a line's number and the reason if its window cannot be used.
        number: The number of the line before the first.
    """
    windows: list[NumberedWindow] = []
    others: dict[str, list[tuple[int, int]]] = {}
    end, count = start, 0
    for line in lines:
        count += 1
        kind = kind_of(line)
        if kind == STEPS:
            if (window := decode(line)) is not None:
                windows.append((number + count, window))
        elif kind:
            others.setdefault(kind, []).append((end, len(line)))
        end += len(line)
    step_columns = StepColumns()
    step_columns.append(windows, refuse)
    columns = step_columns.arrays()
    durations = columns.get("dur_ns", np.zeros(0, dtype=np.int64))
    numbers = columns.get("step", durations[:0])
    flags = columns.get("flags", np.zeros(len(durations), dtype=np.int64))
    steady = (flags & int(NOT_STEADY)) == 0
    marks = columns.get("device_dur", durations[:0])
    return Stretch(
        version=ROLLUP_VERSION,
        start=start,
        end=end,
        lines=count,
        session_crc=session_crc,
        first_step=int(numbers[0]) if len(numbers) else 0,
        last_step=int(numbers[-1]) if len(numbers) else 0,
        steps=len(durations),
        steady=int(steady.sum()),
        marked=int((marks[steady] >= 0).sum()) if len(marks) else 0,
        median_ns=round(float(np.median(durations[steady]))) if steady.any() else 0,
        sums=_sums(columns, steady),
        others=others,
    )


def _sums(columns: dict[str, Int64], steady: Mask) -> dict[str, int]:
    names = [name for name in columns if name not in _NOT_SUMMED and name[:10] != "run_ahead/"]
    if not names:
        return {}
    values = np.array([columns[name] for name in names])[:, steady]
    totals = np.maximum(values, 0).sum(axis=1).tolist()
    return dict(zip(names, totals, strict=True))


_WINDOW = msgspec.json.Decoder(StepsWindow)


class RollupWriter:
    """Folds the lines that a `RecordWriter` has written, once there are enough of them.

    Readers do without a rollup, so that it is given up where it cannot be written.

    Args:
        record_file: The path of the record file.
        session_line: The line that begins the session, without its newline.
    """

    def __init__(self, record_file: Path, session_line: bytes) -> None:
        self._path = rollup_path(str(record_file))
        self._crc = crc32(session_line)
        self._lines: list[bytes] = []
        self._start, self._end, self._steps = 0, -1, 0
        self._given_up = False

    def add(self, start: int, lines: Iterable[bytes]) -> None:
        """Add lines, without their newlines, which were written to the record file at `start`."""
        if self._given_up:
            return
        if not start:  # a new file: what lies beside it is another file's
            self._lines, self._steps = [], 0
            with suppress(OSError):
                os.unlink(self._path)
        if start != self._end:  # something else has written to the file as well
            self.fold()
        if not self._lines:
            self._start = self._end = start
        for line in lines:
            self._lines.append(line + b"\n")
            self._end += len(line) + 1
            if kind_of(line) == STEPS:
                self._steps += first_and_count(line)[1]
        if self._steps >= STRETCH_STEPS:
            self.fold()

    def fold(self) -> None:
        """Write the lines so far as a stretch."""
        lines, self._lines, self._steps = self._lines, [], 0
        if not lines or self._given_up:
            return
        stretch = fold(lines, self._start, self._crc, decode=_WINDOW.decode, refuse=_ignore)
        try:
            with open(self._path, "ab") as file:
                file.write(msgspec.json.encode(stretch) + b"\n")
        except OSError:
            self._given_up = True


_FIRST_AND_COUNT = re.compile(rb'"first_step":(\d{1,18}),"count":(\d{1,9})')


def first_and_count(line: bytes) -> tuple[int, int]:
    """Return the first step of a line's window, and how many it has; zeros if it does not say it.

    >>> first_and_count(b'{"kind":"steps","first_step":50,"count":25}')
    (50, 25)
    """
    match = _FIRST_AND_COUNT.search(line, 0, 200)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def _ignore(_number: int, _why: str) -> None:
    """Nothing that this package writes is refused; a reader says so if it is."""
