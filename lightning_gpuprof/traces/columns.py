"""Collects a table's columns piece by piece, and what they refer to, for any reader."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import TypeVar, cast

import msgspec
import numpy as np
from typing_extensions import override

from lightning_gpuprof.arrays import AnyArray, Int64
from lightning_gpuprof.traces.timeline import (
    MISSING,
    OpArguments,
    Table,
    Thread,
    column_dtype,
    fits_int32,
    make_table,
    start_order,
)

_T = TypeVar("_T", bound=Table)
_DIGITS = re.compile(r"\d+")
_WRAP = 1 << 64
_FEWEST_ROWS = 1 << 12
_TIMES = ("start_ns", "dur_ns")


class Indexer(dict[str, int]):
    """Gives each distinct string the next index; looking one up adds it.

    >>> names = Indexer()
    >>> names["a"], names["b"], names["a"], list(names)
    (0, 1, 0, ['a', 'b'])
    """

    def __missing__(self, key: str) -> int:
        self[key] = index = len(self)
        return index


class Threads(dict[tuple[object, object], int]):
    """Gives each (pid, tid) its index; ids written as strings of digits are the same ids.

    >>> threads = Threads()
    >>> threads[1, "25"], threads[1, 25], threads.table({(1, 25): "main"})
    (0, 0, [Thread(pid=1, tid=25, name='main')])
    """

    def __init__(self) -> None:
        super().__init__()
        self._known: dict[tuple[int | str, int | str], int] = {}

    def __missing__(self, key: tuple[object, object]) -> int:
        same = (plain_id(key[0]), plain_id(key[1]))
        self[key] = index = self._known.setdefault(same, len(self._known))
        return index

    def table(self, names: dict[tuple[int | str, int | str], str]) -> list[Thread]:
        """Return the threads by index."""
        return [Thread(pid, tid, names.get((pid, tid))) for pid, tid in self._known]


def plain_id(value: object) -> int | str:
    """Return a pid or tid as an int where it is a number.

    >>> plain_id("25"), plain_id(7), plain_id("stream 7"), plain_id(None)
    (25, 7, 'stream 7', '')
    """
    if isinstance(value, (int, float)):
        return int(value)
    text = "" if value is None else str(value)
    return int(text) if text.isdigit() else text


def to_id(value: object) -> int:
    """Return an id as a signed 64-bit int; ids above 2**63 wrap, so that they stay distinct.

    >>> to_id("0x10"), to_id("stream 7"), to_id(None), to_id(2**64 - 2), to_id("none")
    (16, 7, -1, -2, -1)
    """
    if isinstance(value, str):
        try:
            value = int(value, 0)
        except ValueError:
            found = _DIGITS.search(str(value))
            value = int(found[0]) if found else MISSING
    if not isinstance(value, (int, float)) or value != value:
        return MISSING
    number = int(value)
    return (number + (_WRAP >> 1)) % _WRAP - (_WRAP >> 1)


def ids(values: Sequence[object]) -> Int64:
    """Return an id column from what a file holds.

    >>> ids([1, 2]).tolist(), ids(["0x0", None, 3]).tolist()
    ([1, 2], [0, -1, 3])
    """
    try:
        return np.fromiter(cast(Sequence[int], values), np.int64, len(values))
    except (TypeError, ValueError, OverflowError):
        return np.fromiter(map(to_id, values), np.int64, len(values))


class Columns:
    """A table in the making: each column a buffer that grows, and is as wide as its values need.

    Large buffers grow in place and go back to the system when freed; thousands of small pieces
    joined at the end would need twice the memory.
    """

    def __init__(self) -> None:
        self._buffers: dict[str, AnyArray] = {}
        self._rows = 0
        self._room = 0

    def add(self, rows: int, **columns: AnyArray) -> None:
        """Add rows; columns that are left out hold `MISSING` for them."""
        start, end = self._rows, self._rows + rows
        if end > self._room:
            self._resize(max(_FEWEST_ROWS, end + end // 8))
        for name, values in columns.items():
            buffer = self._buffers.get(name)
            if buffer is None:
                self._buffers[name] = buffer = np.empty(self._room, dtype=_narrowest(name))
                buffer[:start] = MISSING
            if not _fits(values, buffer.dtype):
                self._buffers[name] = buffer.astype(np.int64)
        for name, buffer in self._buffers.items():
            buffer[start:end] = columns.get(name, MISSING)
        self._rows = end

    def _resize(self, room: int) -> None:
        self._room = room
        for buffer in self._buffers.values():
            buffer.resize(room, refcheck=False)

    def table(self, kind: type[_T]) -> _T:
        """Sort the rows, column by column: only one exists twice at a time."""
        if not self._rows:
            return make_table(kind)
        self._resize(self._rows)
        order = start_order(
            self._buffers["start_ns"][: self._rows],  # type: ignore[arg-type]
            self._buffers["dur_ns"][: self._rows],  # type: ignore[arg-type]
            self._buffers.get("category"),
        )
        columns: dict[str, AnyArray] = {}
        for field in fields(kind):
            buffer = self._buffers.pop(field.name, None)
            values = _missing(field.name) if buffer is None else buffer[: self._rows]
            if field.name not in _TIMES and not (values != values[0]).any():
                columns[field.name] = np.broadcast_to(values[0], self._rows)
            else:
                columns[field.name] = values[order]
        return kind(**columns)  # type: ignore[arg-type]


def _missing(name: str) -> AnyArray:
    return np.array([MISSING], dtype=column_dtype(name))


def _narrowest(name: str) -> type[np.generic]:
    """Return the dtype that a column begins with: ids and durations seldom need 64 bits."""
    wide = column_dtype(name)
    return np.int32 if wide is np.int64 and name != "start_ns" else wide


def _fits(values: AnyArray, dtype: np.dtype[np.generic]) -> bool:
    return dtype != np.int32 or values.dtype != np.int64 or fits_int32(cast(Int64, values))


class ArgumentTable(Sequence[OpArguments]):
    """Distinct operator arguments, kept as JSON text and decoded when one is asked for.

    Args:
        texts: For each, four JSON lists joined by NUL: dims, dtypes, strides, values.
    """

    def __init__(self, texts: Iterable[bytes]) -> None:
        self._texts = list(texts)
        self._decoded: dict[int, OpArguments] = {}

    @override
    def __len__(self) -> int:
        return len(self._texts)

    @override
    def __getitem__(self, index):  # type: ignore[no-untyped-def]
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if index < 0 or index >= len(self):
            raise IndexError(index)
        if index not in self._decoded:
            self._decoded[index] = _decode_arguments(self._texts[index])
        return self._decoded[index]


def _decode_arguments(text: bytes) -> OpArguments:
    parts = [_list(part) for part in text.split(b"\0")]
    dims, dtypes, strides, values = parts
    return OpArguments(
        dims=tuple(dims),
        dtypes=tuple(map(str, dtypes)),
        strides=tuple(strides),
        values=tuple(map(str, values)),
    )


def _list(text: bytes) -> list[object]:
    try:
        value = msgspec.json.decode(text) if text else []
    except msgspec.DecodeError:
        return []
    return value if isinstance(value, list) else [value]
