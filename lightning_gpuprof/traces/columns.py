"""Collects a table's columns piece by piece, with the names and threads that they refer to."""

import re
from collections.abc import Sequence
from math import isfinite
from typing import Any, TypeVar, cast

import msgspec
import numpy as np

from lightning_gpuprof.arrays import AnyArray, Float32, Int64
from lightning_gpuprof.errors import UnreadableError
from lightning_gpuprof.records.decode import decoded
from lightning_gpuprof.traces.timeline import (
    MISSING,
    OpArguments,
    Table,
    Thread,
    dtype_of,
    make_table,
    narrowed,
    start_order,
    with_missing,
)

_T = TypeVar("_T", bound=Table)
_ANY = msgspec.json.Decoder(object)
_DIGITS = re.compile(r"\d{1,20}")
_WRAP = 1 << 64
LIMIT_NS = 2**61
"""Times beyond this are damaged: 1970 is 1.8e18 ns ago, and differences still fit into int64."""
LONGEST_NS = 2**53
"""Longer durations (104 days) are damaged; a thousand durations up to this fit into int64."""
_LONGEST_ID = 20
"""Digits of the largest id of 64 bits."""


class Indexer(dict[str, int]):
    """Gives each distinct string the next index; looking up a new string adds it."""

    def __missing__(self, key: str) -> int:
        self[key] = index = len(self)
        return index


class Threads(dict[tuple[object, object], int]):
    """Gives each (pid, tid) the next index; ids written as digits in a string count as numbers."""

    def __init__(self) -> None:
        super().__init__()
        self._indexes: dict[tuple[int | str, int | str], int] = {}

    def __missing__(self, key: tuple[object, object]) -> int:
        thread = (plain_id(key[0]), plain_id(key[1]))
        self[key] = index = self._indexes.setdefault(thread, len(self._indexes))
        return index

    def table(self, names: dict[tuple[int | str, int | str], str]) -> list[Thread]:
        """Return the threads by index."""
        return [Thread(pid, tid, names.get((pid, tid))) for pid, tid in self._indexes]


def plain_id(value: object) -> int | str:
    """Return a pid or tid as an int where it is a number.

    >>> plain_id("25"), plain_id(7), plain_id("stream 7"), plain_id(None)
    (25, 7, 'stream 7', '')
    """
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return int(value) if isfinite(value) else MISSING
    text = "" if value is None else str(value)
    return int(text) if text.isdecimal() and len(text) <= _LONGEST_ID else text


def to_id(value: object) -> int:
    """Return an id as a signed 64-bit int; ids above 2**63 wrap, so that they stay distinct.

    >>> to_id("0x10"), to_id("stream 7"), to_id(None), to_id(2**64 - 2), to_id("none")
    (16, 7, -1, -2, -1)
    """
    if isinstance(value, str):
        try:
            value = int(value, 0)
        except ValueError:
            digits = _DIGITS.search(str(value))
            value = int(digits[0]) if digits else MISSING
    if not isinstance(value, (int, float)) or (isinstance(value, float) and not isfinite(value)):
        return MISSING
    number = int(value)
    return (number + (_WRAP >> 1)) % _WRAP - (_WRAP >> 1)


def ids(values: Sequence[object]) -> Int64:
    """Return a column of ids from the values in a file."""
    try:
        return np.fromiter(cast(Sequence[int], values), np.int64, len(values))
    except (TypeError, ValueError, OverflowError):
        return np.fromiter(map(to_id, values), np.int64, len(values))


def numbers(values: Sequence[object], per: int) -> Float32:
    """Return values divided by `per`, as a column; if any is not a number, all are `MISSING`."""
    try:
        column: Float32 = np.array(values, dtype=np.float32) / np.float32(per)
    except (TypeError, ValueError, OverflowError):
        return np.full(len(values), MISSING, dtype=np.float32)
    column[~(column >= 0) | np.isinf(column)] = MISSING
    return column


class Columns:
    """Collects the columns of a table piece by piece, each in memory that grows in place."""

    def __init__(self) -> None:
        self._rows = 0
        self._columns: dict[str, bytearray] = {}

    def add(self, **columns: AnyArray) -> None:
        """Add rows; columns that are left out, but not `start_ns`, hold `MISSING` for them."""
        for name, values in columns.items():
            self._filled(name).extend(values.astype(dtype_of(name), copy=False).data.cast("B"))
        self._rows += len(columns["start_ns"])

    def _filled(self, name: str) -> bytearray:
        """Return a column, with `MISSING` in the rows that it was left out of."""
        column, kind = self._columns.setdefault(name, bytearray()), np.dtype(dtype_of(name))
        if left_out := self._rows - len(column) // kind.itemsize:
            column.extend(np.full(left_out, MISSING, dtype=kind).data.cast("B"))
        return column

    def table(self, kind: type[_T]) -> _T:
        """Sort the rows. Call it once, because it drops every column when that is sorted."""
        if not self._rows:
            return make_table(kind)
        category = self._column("category") if "category" in self._columns else None
        order = start_order(self._column("start_ns"), self._column("dur_ns"), category)
        columns = {}
        for name in list(self._columns):
            columns[name] = narrowed(name, self._column(name)[order])
            del self._columns[name]
        return with_missing(kind, len(order), columns)

    def _column(self, name: str) -> Any:
        return np.frombuffer(self._filled(name), dtype=dtype_of(name))


def decode_arguments(text: bytes) -> OpArguments:
    """Decode four JSON lists joined by NUL: dims, dtypes, strides, values."""
    dims, dtypes, strides, values = map(_list, text.split(b"\0"))
    return OpArguments(
        tuple(dims), tuple(map(str, dtypes)), tuple(strides), tuple(map(str, values))
    )


def _list(text: bytes) -> list[object]:
    try:
        value = decoded(_ANY, text) if text else []
    except UnreadableError:
        return []
    return value if isinstance(value, list) else [value]
