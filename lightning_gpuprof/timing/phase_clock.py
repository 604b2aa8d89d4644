"""Charges every nanosecond of the host's time to the innermost region that is open.

Where a region opens or closes, at a *boundary*, only the time and a number are appended to two
lists (ADR 42 says why lists). Later this log is *settled*: the time between two boundaries is
charged to the slot that was innermost (self time). So charged times always add up to the wall time.
"""

from collections.abc import Callable
from contextlib import ContextDecorator
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np
from typing_extensions import override

from lightning_gpuprof.arrays import Int64
from lightning_gpuprof.records.phases import Phase
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
"""A log of this many boundaries is settled early, so that it takes 800 kB at most, however long a
step or a validation is."""


class Slot(NamedTuple):
    """A phase, or a named part of it, to which time is charged."""

    phase: Phase
    part: str | None = None


class ChargedRows(NamedTuple):
    """Spans of time, a row each; a row of `charged_ns`, which has a column per slot, adds up to it.

    Slots that were added since have no column.
    """

    start_ns: Int64
    end_ns: Int64
    charged_ns: Int64


class PhaseClock:
    """The log of boundaries, and the time charged to each slot since the last row ended."""

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
        """Return the slot's number, the same for the same phase and part."""
        slot = Slot(phase, part)
        number = self._numbers.get(slot)
        if number is None:
            number = self._numbers[slot] = len(self.slots)
            self.slots.append(slot)
        return number

    def region(self, phase: Phase, part: str | None = None) -> "Region":
        """Return a context manager that charges its body's self time to a slot."""
        return Region(self, self.slot(phase, part))

    def collections(self) -> "Region":
        """Return the region of full garbage collections."""
        return _Collecting(self, Phase.GARBAGE_COLLECTION.value)

    def start(self, at_ns: int | None = None) -> None:
        """Begin charging, with nothing open but `other`."""
        self.last_ns = self._cut_ns = self.now() if at_ns is None else at_ns
        del self.times[:], self.codes[:]
        self._settled.clear()
        self._charged[:] = 0
        self._open = (0,)

    def swap(self, slot: int) -> None:
        """Charge time from now on to another slot, in place of the innermost region's."""
        self.times.append(self.now())
        self.codes.append(code(SWAP, slot))

    def end_row(self) -> None:
        """End a row here, to be taken later with `take_rows`; open regions stay open."""
        self.times.append(self.now())
        self.codes.append(CUT)

    def cut(self) -> ChargedRows:
        """End a row here and return it."""
        self.settle()
        self.end_row()
        return self._settle()

    def take_rows(self) -> ChargedRows:
        """Return the rows that ended since the last call, oldest first."""
        self.settle()
        width = len(self.slots)
        blocks, self._settled = self._settled, []
        if not blocks:
            none = np.zeros(0, dtype=np.int64)
            return ChargedRows(none, none, np.zeros((0, width), dtype=np.int64))
        return ChargedRows(
            np.concatenate([block.start_ns for block in blocks]),
            np.concatenate([block.end_ns for block in blocks]),
            np.concatenate([_widen(block.charged_ns, width) for block in blocks]),
        )

    def settle(self) -> None:
        """Charge the time of all boundaries in the log, and empty it."""
        if self.codes:
            rows = self._settle()
            if len(rows.end_ns):
                self._settled.append(rows)

    def _settle(self) -> ChargedRows:
        # An interrupt between the two appends leaves one of them longer: one boundary is lost.
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
    """A context manager that decorates functions: each call enters what it is `now`."""

    __slots__ = ()

    def now(self) -> Any:
        """Return the context manager to enter in its place."""
        return self

    @override
    def _recreate_cm(self) -> Any:
        return self.now()


class Region(Decorator):
    """Charges its body's self time to one slot; may be entered again while it is open."""

    __slots__ = ("_closes", "_codes", "_now", "_opens", "_times", "clock", "slot")

    def __init__(self, clock: PhaseClock, slot: int) -> None:
        self.clock = clock
        self.slot = slot
        self._opens, self._closes = code(OPEN, slot), code(CLOSE, slot)
        # Copied here, since the two lines below run some forty times in every step.
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
    """A named part of whatever phase it is entered in, such as a region of the program's own."""

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
        """Return the slot to charge where this is entered inside `outer`."""
        return Slot(outer.phase, self.name)


class _Collecting(PartRegion):
    """A garbage collection: its part is the phase that it fell into, or that phase's part."""

    __slots__ = ()

    @override
    def slot_inside(self, outer: Slot) -> Slot:
        return Slot(Phase.GARBAGE_COLLECTION, outer.part or outer.phase.value)


def _widen(charged: Int64, width: int) -> Int64:
    """Append columns of zeros for the slots that were added since."""
    missing = width - charged.shape[1]
    return np.pad(charged, ((0, 0), (0, missing))) if missing else charged
