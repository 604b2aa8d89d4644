"""The columns of a session's steps, to which the windows of a growing file are appended."""

from collections.abc import Callable, Sequence
from itertools import groupby

import numpy as np

from lightning_gpuprof.arrays import Int64
from lightning_gpuprof.records import schema

_NEEDED = ("dur_ns", "start_ns")
"""Columns without which a window of steps cannot be used."""
_MOST_VALUE = 1 << 53
"""In ns 104 days; above it, JavaScript cannot hold every whole number."""
_ROOM = 4
"""A column that is full gets room for a quarter more steps."""
Refuse = Callable[[int, str], None]
"""Called with a line's number and why it cannot be read."""
NumberedWindow = tuple[int, schema.StepsWindow]
"""A window with the number of its line."""


class StepColumns:
    """An int64 for every step, by the name of the column, in the order of the windows."""

    def __init__(self) -> None:
        self._columns: dict[str, _Column] = {}
        self._steps = 0
        self._last_first_step = -1
        self.mixes_runs = False
        """Whether the windows are those of several runs, since their steps are out of order."""

    def append(self, windows: Sequence[NumberedWindow], refuse: Refuse) -> None:
        """Append windows; those that are incomplete or hold impossible values are refused."""
        for _, window in windows:
            self.mixes_runs |= window.first_step <= self._last_first_step
            self._last_first_step = window.first_step
        refused = {number: reason for number, window in windows if (reason := _incomplete(window))}
        complete = [(number, window) for number, window in windows if number not in refused]
        columns = _join([window for _, window in complete])
        counts = [window.count for _, window in complete]
        impossible = _impossible(columns, counts) if complete else {}
        refused |= {complete[index][0]: reason for index, reason in impossible.items()}
        for number, reason in sorted(refused.items()):
            refuse(number, reason)
        if impossible:
            columns = _join([window for number, window in complete if number not in refused])
        for name in columns:
            self._columns.setdefault(name, _Column(missing_value(name)))
        steps = self._steps + (len(columns["dur_ns"]) if columns else 0)
        for name, column in self._columns.items():
            column.fill(self._steps)
            if name in columns:
                column.append(columns[name])
            column.fill(steps)
        self._steps = steps

    def arrays(self) -> dict[str, Int64]:
        """Return the columns so far. Steps that are appended later do not change them."""
        return {name: column.array for name, column in self._columns.items()}

    @property
    def num_bytes(self) -> int:
        """The memory that the columns take, with the room that they have."""
        return sum(column.num_bytes for column in self._columns.values())


class _Column:
    """Values in an array that has room for more, so that appending rarely copies them."""

    def __init__(self, missing: int) -> None:
        self._missing = missing
        self._values = np.zeros(0, dtype=np.int64)
        self._count = 0

    @property
    def array(self) -> Int64:
        values = self._values[: self._count]
        values.flags.writeable = False
        return values

    @property
    def num_bytes(self) -> int:
        return self._values.nbytes

    def append(self, values: Int64) -> None:
        if not self._count:
            self._values, self._count = values, len(values)
            return
        self._reserve(self._count + len(values))
        self._values[self._count : self._count + len(values)] = values
        self._count += len(values)

    def fill(self, count: int) -> None:
        """Append missing values up to so many in all."""
        if count > self._count:
            self.append(np.full(count - self._count, self._missing, dtype=np.int64))

    def _reserve(self, count: int) -> None:
        if count > len(self._values):
            wider = np.empty(count + count // _ROOM, dtype=np.int64)
            wider[: self._count] = self._values[: self._count]
            self._values = wider


def missing_value(name: str) -> int:
    """Return what stands for a missing value: nothing is 0 on the host, and unknown elsewhere."""
    return schema.NOT_MEASURED if name.startswith(("device", "run_ahead")) else 0


def _incomplete(window: schema.StepsWindow) -> str | None:
    """Return which column of a window is missing or too short, in words; None if none is."""
    for name in (*_NEEDED, *window.columns):
        column = window.columns.get(name)
        size = schema.ITEM_BYTES.get(column.dtype, 0) if column else 0
        if column is None or not size or len(column.data) != window.count * size:
            return f"{name} does not hold a value for every one of its {window.count} steps"
    return None


def _impossible(columns: dict[str, Int64], counts: list[int]) -> dict[int, str]:
    """Return the windows that hold values which no clock or counter gives, with the reason.

    A window is identified by its index in `counts`, which holds every window's number of steps.
    """
    window = np.repeat(np.arange(len(counts)), counts)
    start, dur = columns["start_ns"], columns["dur_ns"]
    backwards = np.zeros(len(start), dtype=np.bool_)
    backwards[1:] = (np.diff(start) < 0) & (np.diff(window) == 0)
    faults = [
        (dur <= 0, "a step took no time"),
        (backwards, "a step began before its predecessor"),
    ]
    for name, column in columns.items():
        least = -_MOST_VALUE if name.startswith(("device", "run_ahead")) else 0
        faults.append(((column < least) | (column > _MOST_VALUE), f"{name} is out of range"))
    # A window with several faults is refused for the first of them, which comes last here.
    return {
        index: reason
        for rows, reason in reversed(faults)
        for index in np.unique(window[rows]).tolist()
    }


def _join(windows: list[schema.StepsWindow]) -> dict[str, Int64]:
    names = dict.fromkeys(name for window in windows for name in window.columns)
    return {name: _join_column(name, windows) for name in names}


def _join_column(name: str, windows: list[schema.StepsWindow]) -> Int64:
    pieces: list[Int64] = []
    columns = [window.columns.get(name) for window in windows]
    dtypes = [None if column is None else column.dtype for column in columns]
    # Consecutive columns of the same type are joined as bytes and unpacked together: unpacking
    # every window's column by itself would take most of the time of reading a million steps.
    for dtype, indices in groupby(range(len(windows)), key=dtypes.__getitem__):
        if dtype is None:
            count = sum(windows[index].count for index in indices)
            pieces.append(np.full(count, missing_value(name), dtype=np.int64))
        else:
            data = b"".join([column.data for index in indices if (column := columns[index])])
            pieces.append(schema.Column(dtype, data).unpack())
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
