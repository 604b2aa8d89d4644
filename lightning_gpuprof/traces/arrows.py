"""Joins launches to their work by the flow arrows of a Chrome trace that has no correlation ids."""

from bisect import bisect_right
from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from lightning_gpuprof.traces.files import scaled

Place = tuple[str, str, str]
"""Process, thread and start of an event, as the file writes them."""


_BEFORE_END_NS, _ROUNDED_NS = 2_000, 5


class Event(Struct):
    """An event of such a trace; times are us."""

    ph: str = ""
    name: str = ""
    pid: int | str = ""
    tid: int | str = ""
    ts: int | float | str = ""
    dur: int | float | str = ""
    id: int | str = ""
    args: dict[str, Any] = {}


class Trace(Struct):
    """The file."""

    traceEvents: list[Event] = []


def place_of(event: Event) -> Place:
    """Return where an event begins."""
    return str(event.pid), str(event.tid), str(event.ts)


class Arrows:
    """Numbers the calls that arrows leave; what one arrow or several reach has its call's number.

    An arrow (`s`) begins at a moment inside the call, on its thread, and ends (`f`, or `t` in
    older files) where the work begins. rpd2tracing lets it begin 2 us before the call's end, so
    that of a shorter call lies before it.

    Args:
        events: The whole trace.
        calls: Those of its spans that may be launches.
    """

    def __init__(self, events: Iterable[Event], calls: Iterable[Event]) -> None:
        self._by_thread: dict[tuple[str, str], list[tuple[int, Event]]] = {}
        for call in calls:
            begin = scaled(str(call.ts), "us")
            if begin is not None:
                self._by_thread.setdefault(place_of(call)[:2], []).append((begin, call))
        for row in self._by_thread.values():
            row.sort(key=lambda pair: pair[0])
        self._of_call: dict[int, int] = {}
        of_arrow: dict[int | str, int] = {}
        reached: dict[Place, int | str] = {}
        for event in events:
            if event.ph in ("f", "t"):
                reached[place_of(event)] = event.id
            elif event.ph == "s" and (call_left := self._around(event)) is not None:
                number = self._of_call.setdefault(id(call_left), len(self._of_call) + 1)
                of_arrow[event.id] = number
        self._of_work = {
            place: of_arrow[arrow] for place, arrow in reached.items() if arrow in of_arrow
        }

    def __bool__(self) -> bool:
        return bool(self._of_work)

    def from_call(self, call: Event) -> int | None:
        """Return the number of a call that an arrow leaves."""
        return self._of_call.get(id(call))

    def to_work(self, work: Event) -> int | None:
        """Return the number of the call that queued this."""
        return self._of_work.get(place_of(work))

    def _around(self, arrow: Event) -> Event | None:
        row = self._by_thread.get(place_of(arrow)[:2], [])
        moment = scaled(str(arrow.ts), "us")
        if moment is None or not row:
            return None
        place = bisect_right(row, moment, key=lambda pair: pair[0])
        after = row[place][1] if place < len(row) else None
        if after is not None and _ends(after, moment + _BEFORE_END_NS):
            return after
        return row[place - 1][1] if place else None


def _ends(call: Event, moment: int) -> bool:
    begin, lasted = scaled(str(call.ts), "us"), scaled(str(call.dur), "us")
    return begin is not None and lasted is not None and abs(begin + lasted - moment) <= _ROUNDED_NS
