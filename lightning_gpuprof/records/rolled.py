"""Reads a rank's record file by its rollup, where reading all of many ranks would take too much.

What the rollup lacks is folded from the record file, piece by piece. Of the steps themselves only
those are read that ranks are compared by.
"""

from array import array
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from zlib import crc32

import msgspec
import numpy as np
from typing_extensions import override

from lightning_gpuprof.arrays import Int64
from lightning_gpuprof.errors import UnreadableError
from lightning_gpuprof.records import schema
from lightning_gpuprof.records.decode import (
    MOST_LINE_BYTES,
    RefusedLines,
    read_record,
    unreadable_start,
)
from lightning_gpuprof.records.files import FileSystem
from lightning_gpuprof.records.rollup import (
    ROLLUP_VERSION,
    RUN,
    STEPS,
    STRETCH_STEPS,
    Stretch,
    first_and_count,
    fold,
    kind_of,
    rollup_path,
)
from lightning_gpuprof.records.session import Rollup
from lightning_gpuprof.records.step_columns import NumberedWindow, StepColumns

_PIECE = 1 << 22
"""A record file without a rollup is folded in pieces of so many bytes."""
_EVERY = frozenset({"cycle", "probe_disabled", "end"})
"""Kinds of records of which all are read; of the others the last one counts."""
_STRETCH = msgspec.json.Decoder(Stretch)


class _Stretches:
    """Stretches as arrays, of which many are held at once."""

    FIELDS = ("start", "end", "first_step", "last_step", "steps", "steady", "marked", "median_ns")

    def __init__(self) -> None:
        self._fields = {name: array("q") for name in self.FIELDS}
        self._sums: dict[str, array[int]] = {}
        self._count = 0

    def append(self, stretch: Stretch) -> None:
        if not stretch.steps:
            return
        for name, column in self._fields.items():
            column.append(getattr(stretch, name))
        for name in stretch.sums.keys() - self._sums.keys():
            self._sums[name] = array("q", bytes(8 * self._count))
        for name, column in self._sums.items():
            column.append(stretch.sums.get(name, 0))
        self._count += 1

    def with_rest(self, rest: Stretch | None) -> "tuple[dict[str, Int64], dict[str, Int64]]":
        """Return fields and sums as arrays, with another stretch at the end if it has steps."""
        more = rest is not None and rest.steps > 0
        names = dict.fromkeys([*self._sums, *(rest.sums if rest is not None and more else ())])
        fields = {
            name: _joined(column, [getattr(rest, name)] if more else [])
            for name, column in self._fields.items()
        }
        nothing = array("q", bytes(8 * self._count))
        sums = {
            name: _joined(
                self._sums.get(name, nothing),
                [rest.sums.get(name, 0)] if rest is not None and more else [],
            )
            for name in names
        }
        return fields, sums


def _joined(column: "array[int]", more: list[int]) -> Int64:
    return np.concatenate([np.frombuffer(column, dtype=np.int64), np.array(more, dtype=np.int64)])


class RankTail(Mapping[str, Int64]):
    """The columns of a stretch of steps, which are read from the record file when they are needed.

    It is equal only to itself, and never changes.
    """

    def __init__(
        self, path: str, fs: FileSystem, ranges: list[tuple[int, int]], first: int, last: int
    ) -> None:
        self._path, self._fs, self._ranges = path, fs, ranges
        self.first, self.last = first, last

    @override
    def __getitem__(self, name: str) -> Int64:
        return self._columns[name]

    @override
    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    @override
    def __len__(self) -> int:
        return len(self._columns)

    __hash__ = object.__hash__

    @override
    def __eq__(self, other: object) -> bool:
        return self is other

    def release(self) -> None:
        """Give up the columns that were read; whoever still needs them reads them again."""
        self.__dict__.pop("_columns", None)

    @property
    def num_bytes(self) -> int:
        """The memory that the columns take; 0 until they are read."""
        return sum(column.nbytes for column in self.__dict__.get("_columns", {}).values())

    @cached_property
    def _columns(self) -> dict[str, Int64]:
        windows: list[NumberedWindow] = []
        with suppress(OSError):  # the file is gone: there are no steps to compare
            for start, end in self._ranges:
                text = self._fs.read_range(self._path, start, end - start)
                for line in text.splitlines(keepends=True):
                    first, count = first_and_count(line)
                    if kind_of(line) == STEPS and first + count > self.first and first <= self.last:
                        window = _window(line)
                        windows += [(0, window)] if window is not None else []
        columns = StepColumns()
        columns.append(windows, lambda _number, _why: None)
        arrays = columns.arrays()
        if "step" not in arrays:
            return {}
        rows = (arrays["step"] >= self.first) & (arrays["step"] <= self.last)
        return {name: column[rows] for name, column in arrays.items()}


class RolledSession:
    """A session of a rank: its stretches so far, and where its other records lie."""

    def __init__(self, start: schema.RunStart, crc: int, *, is_readable: bool) -> None:
        self.start, self.crc, self.is_readable = start, crc, is_readable
        self._stretches = _Stretches()
        self._rest: Stretch | None = None
        self._places: dict[str, list[tuple[int, int]]] = {}
        self._fields, self._sums = self._stretches.with_rest(None)
        self._rollup: Rollup | None = None
        self._tail: RankTail | None = None
        self._read: list[tuple[int, int]] = []
        self._records: tuple[schema.Record, ...] = (start,)

    def add(self, stretch: Stretch) -> None:
        """Add a stretch."""
        self._stretches.append(stretch)
        _place(self._places, stretch)
        self._rollup = None

    def end_with(self, rest: Stretch | None) -> None:
        """Add what follows the last stretch, in place of what followed it before."""
        if rest != self._rest:
            self._rest, self._rollup = rest, None

    @property
    def num_bytes(self) -> int:
        """About how much memory the stretches and the steps take."""
        stretches = 8 * len(self._sums) * len(self._fields["start"])
        return stretches + (self._tail.num_bytes if self._tail is not None else 0)

    @property
    def rollup(self) -> Rollup:
        """The stretches as arrays; the same object until some are added."""
        if self._rollup is None:
            self._fields, self._sums = self._stretches.with_rest(self._rest)
            columns = {name: self._fields[name] for name in _Stretches.FIELDS[2:]}
            self._rollup = Rollup(**columns, sums=self._sums)
        return self._rollup

    def from_step(self, last: int, count: int) -> int:
        """Return the step from which on there are `count` steady steps up to the step `last`."""
        rollup = self.rollup
        until = int(np.searchsorted(rollup.first_step, last, side="right"))
        steady = np.cumsum(rollup.steady[:until][::-1])
        index = until - 1 - int(np.searchsorted(steady, count))
        return int(rollup.first_step[index]) if index >= 0 else 0

    def columns(self, path: str, fs: FileSystem, first: int, last: int) -> RankTail:
        """Return the columns from step `first` to `last`; the same object for the same steps."""
        if self._tail is None or (self._tail.first, self._tail.last) != (first, last):
            rollup, fields = self.rollup, self._fields
            chosen = (rollup.last_step >= first) & (rollup.first_step <= last)
            starts, ends = fields["start"][chosen].tolist(), fields["end"][chosen].tolist()
            if self._tail is not None:
                self._tail.release()
            self._tail = RankTail(path, fs, list(zip(starts, ends, strict=True)), first, last)
        return self._tail

    def records(self, path: str, fs: FileSystem) -> tuple[schema.Record, ...]:
        """Return the records that are no steps: all of an `_EVERY` kind, the last of any other."""
        places = {kind: list(of_kind) for kind, of_kind in self._places.items()}
        if self._rest is not None:
            _place(places, self._rest)
        chosen = sorted(place for of_kind in places.values() for place in of_kind)
        if chosen != self._read:
            self._read = chosen
            self._records = (self.start, *_records_at(path, fs, chosen))
        return self._records


def _place(places: dict[str, list[tuple[int, int]]], stretch: Stretch) -> None:
    for kind, of_kind in stretch.others.items():
        if kind in _EVERY:
            places[kind] = [*places.get(kind, []), *of_kind]
        elif kind != RUN:
            places[kind] = of_kind[-1:]


class RolledFile:
    """A rank's record file, of which the rollup and little else is read, again and again.

    Args:
        path: The record file.
        name: Its name, for warnings.
        fs: Where it is.
    """

    def __init__(self, path: str, name: str, fs: FileSystem) -> None:
        self._name = name
        self._path, self._fs = path, fs
        self._begin(trusts_rollup=True)

    def _begin(self, *, trusts_rollup: bool) -> None:
        self._sessions: list[RolledSession] = []
        self._whole = 0
        """So many of the sessions have a stretch; one that only began is read anew."""
        self.newer = ""
        self._refused = RefusedLines(self._name)
        self._end = self._lines = self._rollup_end = 0
        self._first_line = b""
        self._trusts_rollup = trusts_rollup
        self.incomplete = False

    @property
    def sessions(self) -> list[RolledSession]:
        """The sessions that this version can read."""
        return [session for session in self._sessions if session.is_readable]

    @property
    def num_bytes(self) -> int:
        """About how much memory the sessions take."""
        return sum(session.num_bytes for session in list(self._sessions))

    def stepped(self) -> dict[int, RolledSession]:
        """Return the last session of every number that recorded steps, by that number."""
        return {
            session.start.session: session for session in self.sessions if len(session.rollup.steps)
        }

    def read(self, size: int) -> None:
        """Read what was added to a file that now has `size` bytes.

        Raises:
            OSError: It cannot be read.
        """
        head = self._fs.read_range(self._path, 0, 512)[: len(self._first_line) or 512]
        if size < self._end or (self._first_line and head != self._first_line):
            self._begin(trusts_rollup=True)
        self._first_line = self._first_line or head
        self.incomplete = False
        del self._sessions[self._whole :]
        if self._trusts_rollup and not self._read_rollup(size):
            self._begin(trusts_rollup=False)
            self._first_line = head
        for session in self._sessions:
            session.end_with(None)
        self._fold_up_to(size, final=True)

    def warnings(self) -> tuple[str, ...]:
        """Return a sentence for every line that cannot be read."""
        return self._refused.warnings(is_incomplete=self.incomplete)

    def _read_rollup(self, size: int) -> bool:
        """Take new stretches from the rollup; return False if it is none of this file."""
        path = rollup_path(self._path)
        if not self._fs.exists(path):
            return not self._rollup_end
        length = self._fs.size(path)
        if length < self._rollup_end:
            return False
        text = self._fs.read_range(path, self._rollup_end, length - self._rollup_end)
        complete = text[: text.rfind(b"\n") + 1]
        for line in complete.splitlines():
            try:
                stretch = _STRETCH.decode(line)
            except (msgspec.MsgspecError, ValueError, RecursionError):
                return False
            if not self._fits(stretch, size):
                return False
            self._fold_up_to(stretch.start, final=False)
            if self._end != stretch.start or not self._add(stretch):
                return False
        self._rollup_end += len(complete)
        return True

    def _fits(self, stretch: Stretch, size: int) -> bool:
        return (
            stretch.version == ROLLUP_VERSION
            and self._end <= stretch.start < stretch.end <= size
            and stretch.steady <= stretch.steps
            and stretch.first_step <= stretch.last_step
            and all(
                stretch.start <= start and start + length <= stretch.end
                for places in stretch.others.values()
                for start, length in places
            )
        )

    def _add(self, stretch: Stretch) -> bool:
        """Add the stretch that follows; return False if it is not of the session that it names."""
        for start, length in stretch.others.get(RUN, []):
            self._begin_session(self._fs.read_range(self._path, start, length), self._lines + 1)
        if not self._sessions or self._sessions[-1].crc != stretch.session_crc:
            return False
        self._sessions[-1].add(stretch)
        self._whole = len(self._sessions)
        self._end, self._lines = stretch.end, self._lines + stretch.lines
        return True

    def _fold_up_to(self, end: int, *, final: bool) -> None:
        """Fold the lines up to a place in the file; with `final`, it is the end of the file.

        What is too short for a stretch there, or belongs to a stretch that is still written, is
        folded anew the next time.
        """
        piece = _PIECE
        while self._end < end:
            wanted = min(piece, end - self._end)
            text = self._fs.read_range(self._path, self._end, wanted)
            is_rest = final and self._end + wanted >= end
            complete = text[: text.rfind(b"\n") + 1]
            self.incomplete = is_rest and len(complete) < len(text)
            if complete:
                lines = [line + b"\n" for line in complete.split(b"\n")[:-1]]
                self._fold_lines(lines, is_rest=is_rest)
                piece = _PIECE
                if is_rest:
                    return
            elif len(text) < piece:  # an incomplete line, or the file has become shorter
                return
            elif piece > MOST_LINE_BYTES:
                raise OSError(f"it has a line of more than {MOST_LINE_BYTES >> 20} MiB")
            else:
                piece *= 2

    def _fold_lines(self, lines: list[bytes], *, is_rest: bool) -> None:
        # With a rollup, what follows its last stretch will be in a stretch of its own.
        is_open = is_rest and self._rollup_end > 0
        pending: list[bytes] = []
        steps = 0
        for line in lines:
            is_run = kind_of(line) == RUN
            if is_run or (steps >= STRETCH_STEPS and not is_open):
                self._fold_pending(pending)
                pending, steps = [], 0
            if is_run:
                self._begin_session(line, self._lines + 1)
            pending.append(line)
            steps += first_and_count(line)[1] if kind_of(line) == STEPS else 0
        self._fold_pending(pending, is_rest=is_rest and (is_open or steps < STRETCH_STEPS))

    def _fold_pending(self, lines: list[bytes], *, is_rest: bool = False) -> None:
        if not lines:
            return
        numbers = range(self._lines + 1, self._lines + 1 + len(lines))
        windows: dict[bytes, schema.StepsWindow] = {}
        for number, line in zip(numbers, lines, strict=True):
            if kind_of(line) in {STEPS, ""} and line != b"\n":
                try:
                    record = read_record(line)
                    if isinstance(record, schema.StepsWindow):
                        windows[line] = record
                except UnreadableError as error:
                    self._refused.refuse(number, str(error))
        session = self._sessions[-1] if self._sessions else None
        stretch = fold(
            lines,
            self._end,
            session.crc if session else 0,
            decode=windows.get,
            refuse=self._refused.refuse,
            number=self._lines,
        )
        if is_rest:
            if session is not None:
                session.end_with(stretch)
            return
        if session is not None:
            session.add(stretch)
        self._whole = len(self._sessions)
        self._end, self._lines = stretch.end, self._lines + stretch.lines

    def _begin_session(self, line: bytes, number: int) -> None:
        try:
            start = read_record(line)
        except UnreadableError as error:
            self._refused.refuse(number, str(error))
            return
        if not isinstance(start, schema.RunStart):
            return
        reason = unreadable_start(start)
        if reason is not None:
            self.newer = self._refused.note_start(number, reason)
        crc = crc32(line.rstrip(b"\n"))
        self._sessions.append(RolledSession(start, crc, is_readable=reason is None))


def _window(line: bytes) -> schema.StepsWindow | None:
    with suppress(UnreadableError):
        record = read_record(line)
        if isinstance(record, schema.StepsWindow):
            return record
    return None


def _records_at(
    path: str, fs: FileSystem, places: list[tuple[int, int]]
) -> Iterator[schema.Record]:
    for start, length in places:
        with suppress(UnreadableError, OSError):
            yield read_record(fs.read_range(path, start, length))
