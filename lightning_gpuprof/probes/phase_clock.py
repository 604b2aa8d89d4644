"""Charges every nanosecond of the host to the innermost region that is open.

A `PhaseClock` has *slots*, each a phase with an optional part name, and a stack of open slots.
At each boundary the time since the last one goes to the slot that was on top: self time, so
that what is charged always adds up to the wall time. One boundary is one reading of the clock,
one addition and one list operation.
"""

from array import array
from collections.abc import Callable
from types import TracebackType
from typing import NamedTuple

from typing_extensions import override

from lightning_gpuprof.records.phases import Phase


class Slot(NamedTuple):
    """What time is charged to."""

    phase: Phase
    part: str | None = None


class Cut(NamedTuple):
    """What was charged between two cuts: `sum(charged_ns) == end_ns - start_ns`."""

    start_ns: int
    end_ns: int
    charged_ns: list[int]
    """By slot number; shorter than `slots` where slots were added since."""


class PhaseClock:
    """The stack of open regions and what was charged to each slot since the last cut.

    Args:
        now: Returns nanoseconds, never running backwards.

    >>> ticks = iter([0, 10, 15, 40])
    >>> clock = PhaseClock(lambda: next(ticks))
    >>> clock.start()
    >>> with clock.region(Phase.FORWARD):
    ...     pass
    >>> clock.cut()
    Cut(start_ns=0, end_ns=40, charged_ns=[35, 5])
    """

    __slots__ = (
        "_cut_ns",
        "_numbers",
        "_zeros",
        "charged",
        "current",
        "last_ns",
        "now",
        "slots",
        "stack",
    )

    def __init__(self, now: Callable[[], int]) -> None:
        self.now = now
        self.slots: list[Slot] = []
        self.charged: list[int] = []
        self._zeros: list[int] = []
        self.stack: list[int] = []
        self._numbers: dict[Slot, int] = {}
        self.current = self.slot(Phase.OTHER)
        self.last_ns = self._cut_ns = 0

    def slot(self, phase: Phase, part: str | None = None) -> int:
        """Return the slot's number, the same for the same phase and part."""
        wanted = Slot(phase, part)
        number = self._numbers.get(wanted)
        if number is None:
            number = self._numbers[wanted] = len(self.slots)
            self.slots.append(wanted)
            self.charged.append(0)
            self._zeros.append(0)
        return number

    def region(self, phase: Phase, part: str | None = None) -> "Region":
        """Return a context manager that charges its body's self time to a slot."""
        return Region(self, self.slot(phase, part))

    def start(self, at_ns: int | None = None) -> None:
        """Begin charging, with nothing open but `other`."""
        self.last_ns = self._cut_ns = self.now() if at_ns is None else at_ns
        self.charged[:] = self._zeros
        self.stack.clear()
        self.current = 0

    def cut(self) -> Cut:
        """Return what was charged since the last cut, and begin anew; open regions stay open."""
        kept: array[int] = array("q")
        start_ns, end_ns = self.cut_into(kept)
        return Cut(start_ns, end_ns, kept.tolist())

    def cut_into(self, kept: "array[int]") -> tuple[int, int]:
        """Append what was charged since the last cut to an array, and begin anew.

        For every step: what it leaves behind are plain numbers, nothing for the garbage
        collector to go through later.

        Returns:
            The times of the last cut and of this one.
        """
        now = self.now()
        charged = self.charged
        charged[self.current] += now - self.last_ns
        kept.fromlist(charged)
        charged[:] = self._zeros
        start_ns = self._cut_ns
        self.last_ns = self._cut_ns = now
        return start_ns, now

    def swap(self, slot: int) -> None:
        """Charge what runs from now on to another slot, in place of the innermost region's."""
        now = self.now()
        self.charged[self.current] += now - self.last_ns
        self.last_ns = now
        self.current = slot

    def close(self, slot: int) -> None:
        """Close the innermost region of a slot, and whatever was left open inside it.

        A region can be left open by an exception between a profiler's `start` and `stop`. A slot
        that is not open is left alone.
        """
        now = self.now()
        self.charged[self.current] += now - self.last_ns
        self.last_ns = now
        if self.stack and self.current == slot:
            self.current = self.stack.pop()
        elif slot in self.stack[1:]:
            while self.stack.pop() != slot:
                pass
            self.current = self.stack.pop()


class Region:
    """Charges its body's self time to one slot; may be entered again while it is open."""

    __slots__ = ("clock", "slot")

    def __init__(self, clock: PhaseClock, slot: int) -> None:
        self.clock = clock
        self.slot = slot

    def __enter__(self) -> None:
        clock = self.clock
        now = clock.now()
        clock.charged[clock.current] += now - clock.last_ns
        clock.last_ns = now
        clock.stack.append(clock.current)
        clock.current = self.slot

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        clock = self.clock
        if clock.current != self.slot or not clock.stack:
            clock.close(self.slot)
            return
        now = clock.now()
        clock.charged[self.slot] += now - clock.last_ns
        clock.last_ns = now
        clock.current = clock.stack.pop()


class Inside(Region):
    """A named part of whatever phase it is entered in, such as a region of the user's own."""

    __slots__ = ("_entered", "_numbers", "name")

    def __init__(self, clock: PhaseClock, name: str) -> None:
        super().__init__(clock, 0)
        self.name = name
        self._numbers: dict[int, int] = {}
        self._entered: list[int] = []

    @override
    def __enter__(self) -> None:
        outer = self.clock.current
        number = self._numbers.get(outer)
        if number is None:
            slot = self.slot_inside(self.clock.slots[outer])
            number = self._numbers[outer] = self.clock.slot(*slot)
        self._entered.append(number)
        self.slot = number
        super().__enter__()

    @override
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._entered:
            self.clock.close(self._entered.pop())

    def slot_inside(self, outer: Slot) -> Slot:
        """Return what is charged where this is entered inside `outer`."""
        return Slot(outer.phase, self.name)
