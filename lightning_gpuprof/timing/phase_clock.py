"""Charges every nanosecond of the host's time to the innermost region that is open.

When a region opens or closes, which is a *boundary*, only the time and a number are appended to two
lists (ADR 42 says why they are lists). Later this log is *settled*: the time between two boundaries
is charged to the innermost slot (self time). Therefore the charged times always add up to the wall
time.
"""

from collections.abc import Callable
from contextlib import ContextDecorator
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np
from typing_extensions import override

from lightning_gpuprof.arrays import Int64
from lightning_gpuprof.records.phases import BATCH_WORK, COLLECTIVES, EXCHANGE, Phase
from lightning_gpuprof.timing.region_paths import (
    CLOSE,
    CUT,
    OPEN,
    SWAP,
    Path,
    Paths,
    code,
    ends_row,
)

LOG_LIMIT = 16_384
"""A log of this many boundaries is settled early, so that it never takes more than 800 kB, even in
a very long step or validation."""


class Slot(NamedTuple):
    """A phase, or a named part of it, to which time is charged."""

    phase: Phase
    part: str | None = None


class ChargedRows(NamedTuple):
    """Spans of time, and the time that was charged to every slot in each of them.

    `charged_ns` has a row per span, which adds up to the span's duration, and a column per slot.
    Slots that were added later have no column.
    """

    start_ns: Int64
    end_ns: Int64
    charged_ns: Int64


class PhaseClock:
    """The log of boundaries, and the time charged to every slot since the last row ended.

    Attributes:
        now: Returns nanoseconds.
        slots: All slots, by their numbers.
        times: The times of the boundaries in the log.
        codes: The boundaries in the log, as numbers (`region_paths.code`).
        parts: All named parts, by their numbers.
        boundaries: How many boundaries have been settled.
        last_ns: The time of the last settled boundary.
    """

    def __init__(self, now: Callable[[], int]) -> None:
        self.now = now
        self.slots: list[Slot] = []
        self.times: list[int] = []
        self.codes: list[int] = []
        self.parts: list[PartRegion] = []
        self.boundaries = 0
        self.last_ns = self._cut_ns = 0
        self._numbers: dict[Slot, int] = {}
        self._open: Path = (self.slot(Phase.OTHER),)
        self._paths = Paths(self._slot_inside, lambda number: self.parts[number].numbers)
        self._charged = np.zeros(1, dtype=np.int64)
        self._settled: list[ChargedRows] = []

    def slot(self, phase: Phase, part: str | None = None) -> int:
        """Return the number of the slot of a phase and part, which is created if it is new."""
        slot = Slot(phase, part)
        number = self._numbers.get(slot)
        if number is None:
            number = self._numbers[slot] = len(self.slots)
            self.slots.append(slot)
        return number

    def region(self, phase: Phase, part: str | None = None) -> "Region":
        """Return a region that charges its body's self time to the slot of a phase and part."""
        return Region(self, self.slot(phase, part))

    def part(self, name: str) -> "PartRegion":
        """Return a region that charges its body to a named part of the phase it is entered in."""
        return (_CollectiveRegion if name == COLLECTIVES else PartRegion)(self, name)

    def collections(self) -> "Region":
        """Return the region of full garbage collections."""
        return _CollectionRegion(self, Phase.GARBAGE_COLLECTION.value)

    def start(self, at_ns: int | None = None) -> None:
        """Begin to charge time. Only `other` is open."""
        self.last_ns = self._cut_ns = self.now() if at_ns is None else at_ns
        del self.times[:], self.codes[:]
        self._settled.clear()
        self._charged[:] = 0
        self._open = (0,)

    def swap(self, slot: int) -> None:
        """Replace the innermost slot, so that time is charged to this slot from now on."""
        self.times.append(self.now())
        self.codes.append(code(SWAP, slot))

    def end_row(self) -> None:
        """End a row here, which `take_rows` returns later. Open regions stay open."""
        self.times.append(self.now())
        self.codes.append(CUT)

    def cut(self) -> ChargedRows:
        """End a row here and return it."""
        self.settle()
        self.end_row()
        return self._settle()

    def take_rows(self) -> ChargedRows:
        """Return the rows that have ended since the last call, oldest first."""
        self.settle()
        width = len(self.slots)
        settled, self._settled = self._settled, []
        if not settled:
            empty = np.zeros(0, dtype=np.int64)
            return ChargedRows(empty, empty, np.zeros((0, width), dtype=np.int64))
        return ChargedRows(
            np.concatenate([rows.start_ns for rows in settled]),
            np.concatenate([rows.end_ns for rows in settled]),
            np.concatenate([_widen(rows.charged_ns, width) for rows in settled]),
        )

    def settle(self) -> None:
        """Charge the time between the boundaries in the log, and empty the log."""
        if self.codes:
            rows = self._settle()
            if len(rows.end_ns):
                self._settled.append(rows)

    def _settle(self) -> ChargedRows:
        # Ctrl-C between the two appends leaves one list longer, and that boundary is lost.
        count = min(len(self.times), len(self.codes))
        times = np.array(self.times[:count], dtype=np.int64)
        codes = np.array(self.codes[:count], dtype=np.int32)
        del self.times[:], self.codes[:]
        self.boundaries += count
        ends = np.flatnonzero(ends_row(codes))
        slots, self._open = self._paths.follow(self._open, codes, ends)
        width = len(self.slots)
        row = np.zeros(count, dtype=np.int64)
        row[ends[ends < count - 1] + 1] = 1
        row = np.cumsum(row)
        spent = np.diff(times, prepend=self.last_ns)
        # Sums of whole numbers are exact in float64 up to 2^53 ns, 104 days.
        cells = np.bincount(row * width + slots, weights=spent, minlength=(len(ends) + 1) * width)
        charged = cells.astype(np.int64).reshape(-1, width)
        charged[0, : len(self._charged)] += self._charged
        self._charged = charged[-1]
        end_ns = times[ends]
        start_ns = np.concatenate(([self._cut_ns], end_ns))
        self.last_ns, self._cut_ns = int(times[-1]), int(start_ns[-1])
        return ChargedRows(start_ns[:-1], end_ns, charged[:-1])

    def _slot_inside(self, number: int, outer: int) -> int:
        part = self.parts[number]
        slot = self.slot(*part.slot_inside(self.slots[outer]))
        part.numbers.add(slot)
        return slot


class Decorator(ContextDecorator):
    """A context manager that can decorate functions, whose calls then enter `current()`."""

    __slots__ = ()

    def current(self) -> Any:
        """Return the context manager to enter now in the place of this one."""
        return self

    @override
    def _recreate_cm(self) -> Any:
        return self.current()


class Region(Decorator):
    """Charges its body's self time to a slot. It may be entered again while it is open."""

    __slots__ = ("_closes", "_codes", "_now", "_opens", "_times", "clock", "slot")

    def __init__(self, clock: PhaseClock, slot: int) -> None:
        self.clock = clock
        self.slot = slot
        self._opens, self._closes = code(OPEN, slot), code(CLOSE, slot)
        # These are copied because the lines that use them run about forty times in every step.
        self._now, self._times, self._codes = clock.now, clock.times, clock.codes

    def __enter__(self) -> Any:
        self._times.append(self._now())
        self._codes.append(self._opens)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._times.append(self._now())
        self._codes.append(self._closes)


class PartRegion(Region):
    """Charges its body's self time to a named part of the phase in which it is entered."""

    __slots__ = ("name", "numbers")

    def __init__(self, clock: PhaseClock, name: str) -> None:
        super().__init__(clock, 0)
        self.name = name
        self.numbers: set[int] = set()
        number = ~len(clock.parts)
        clock.parts.append(self)
        self._opens, self._closes = code(OPEN, number), code(CLOSE, number)

    @override
    def __enter__(self) -> Any:
        self._times.append(self._now())
        self._codes.append(self._opens)
        return self.name  # as Lightning's profilers do

    def slot_inside(self, outer: Slot) -> Slot:
        """Return the slot to charge if this region is entered while `outer` is innermost."""
        return Slot(outer.phase, self.name)


class _CollectionRegion(PartRegion):
    """The region of garbage collections. Its part is the phase or part that was interrupted."""

    __slots__ = ()

    @override
    def slot_inside(self, outer: Slot) -> Slot:
        return Slot(Phase.GARBAGE_COLLECTION, outer.part or outer.phase.value)


class _CollectiveRegion(PartRegion):
    """The region of collective operations.

    It is a part of its own in the work on a batch. Elsewhere, a callback, a logger or another named
    part is charged with the collectives that it makes.
    """

    __slots__ = ()

    @override
    def slot_inside(self, outer: Slot) -> Slot:
        of_batch = outer.phase in BATCH_WORK and outer.part != EXCHANGE
        return Slot(outer.phase, self.name) if of_batch or outer.part is None else outer


def _widen(charged: Int64, width: int) -> Int64:
    """Append columns of zeros for the slots that were added later."""
    missing = width - charged.shape[1]
    return np.pad(charged, ((0, 0), (0, missing))) if missing else charged
