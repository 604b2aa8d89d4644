"""Times a step's phases on the device: an event at each boundary, read once the device passed it.

`harvest` never waits. A phase's device time is the time between the mark that begins it and the
next, working or idle: a step's device phases add up to its device duration exactly. A mark for
which the pool has no event is lost; its step and the step before are not measured. Neither is a
step in which a CUDA graph is captured, or whose marks pass out of order, as they can on a user's
own streams.
"""

from array import array
from collections.abc import Callable
from statistics import median_low
from typing import Any

from lightning_gpuprof.adapters.device_events import DeviceEvents
from lightning_gpuprof.timing.device_rows import OUTSIDE, WHOLE, DeviceClock, DeviceRows

CAPACITY = 2048
"""Marks in flight: about 200 steps' worth, far more than a device's queue holds; 40 KiB."""
_HARVEST_EVERY = 64
"""The marks of some eight steps: to read them at once makes no step much longer."""
_REBASE_NS = 1_000_000_000
"""CUDA gives elapsed time in 32-bit floats of milliseconds: beyond a second they get coarse."""
_TRIES, _POLLS = 5, 200


class DeviceMarks:
    """Marks in flight, and the device times of the steps that came in."""

    def __init__(
        self, events: DeviceEvents, now: Callable[[], int], *, capacity: int = CAPACITY
    ) -> None:
        self.clock = DeviceClock()
        self.marked = self.lost = self.own_ns = 0
        self.queueing_ns: int | None = None
        self._device = events
        self._now = now
        self._capacity = capacity
        self._events: list[Any] = []
        self._host_ns = array("q", bytes(8 * capacity))
        self._step = array("q", bytes(8 * capacity))
        self._phase = array("b", bytes(capacity))
        self._part = array("h", bytes(2 * capacity))
        self._tail = self._due = 0
        self._base: Any = None
        self._base_ns = 0
        self._calibrating: Any = None
        self._queueing: list[int] = []
        self._rows = DeviceRows()
        self.part, self.take = self._rows.part, self._rows.take

    @property
    def pending_step(self) -> int | None:
        """The first step of which a mark has yet to come in; None where there is none."""
        if self._rows.step != OUTSIDE:
            return self._rows.step
        in_flight = (self._step[at % self._capacity] for at in range(self._tail, self.marked))
        return next((step for step in in_flight if step != OUTSIDE), None)

    def mark(self, step: int, phase: int, host_ns: int, part: int = WHOLE) -> None:
        """Record a boundary, after which time belongs to a phase (by number) of a step."""
        head = self.marked
        if head == self._due and not self._make_room(head):
            self.lost += 1
            self._spoil(head, step)
            return
        at = head % self._capacity
        self._host_ns[at] = host_ns
        self._step[at] = step
        self._phase[at] = phase
        self._part[at] = part
        self.own_ns += self._now() - host_ns
        if not self._device.record(self._events[at]):
            self._spoil(head, step)
            return
        self.marked = head + 1

    def relabel(self, phase: int) -> None:
        """Give the time since the newest mark to another phase."""
        self._phase[(self.marked - 1) % self._capacity] = phase

    def harvest(self) -> None:
        """Take in the marks that the device has passed, in order."""
        device, events, capacity = self._device, self._events, self._capacity
        while self._tail < self.marked:
            at = self._tail % capacity
            event = events[at]
            if self._base is None:
                if not device.query(event):
                    return
                self._base, events[at] = event, device.new_event()
                passed_ns = self._base_ns
            else:
                elapsed = device.elapsed_ns(self._base, event)
                if elapsed is None:
                    return
                passed_ns = self._base_ns + elapsed
                if elapsed > _REBASE_NS:
                    self._base, events[at] = event, self._base
                    self._base_ns = passed_ns
            self._tail += 1
            ahead_ns = self.clock.run_ahead(passed_ns, self._host_ns[at])
            self._rows.passes(passed_ns, ahead_ns, self._step[at], self._phase[at], self._part[at])

    def calibrate(self) -> bool:
        """Tie the two clocks together if the device is idle; takes some microseconds."""
        if self.marked > self._tail:  # some are in flight
            return False
        best: tuple[int, int, int] | None = None
        self._queueing.clear()
        for _ in range(_TRIES):
            reading = self._try_calibration()
            if reading is None:
                return False
            if best is None or reading[2] - reading[1] < best[2] - best[1]:
                best = reading
        assert best is not None
        self.queueing_ns = median_low(self._queueing)
        return self.clock.calibrate(best[0], low_ns=best[1], high_ns=best[2])

    def _make_room(self, head: int) -> bool:
        """Take in passed marks and prepare events for the next ones; False without room."""
        if not self._device.capturing():
            self.harvest()
        room = self._tail + self._capacity - head
        if room > 0:
            self._due = due = head + min(room, _HARVEST_EVERY)
            missing = min(due, self._capacity) - len(self._events)
            self._events.extend(self._device.new_event() for _ in range(missing))
        return room > 0

    def _spoil(self, head: int, step: int) -> None:
        """Note that a mark is lost: neither its step nor the step that it would end is measured."""
        self._rows.spoiled.update((step, self._step[(head - 1) % self._capacity]))

    def _try_calibration(self) -> tuple[int, int, int] | None:
        device, now = self._device, self._now
        event = self._calibrating = self._calibrating or device.new_event()
        low = begin = now()
        if not device.record(event):
            return None
        recorded = now()
        for _ in range(_POLLS):
            asked = now()
            if device.query(event):
                high = now()
                break
            low = asked  # not passed by then
        else:
            return None
        self._queueing.append(recorded - begin)
        if self._base is None:
            self._base, self._calibrating = event, None
            return self._base_ns, low, high
        elapsed = device.elapsed_ns(self._base, event)
        assert elapsed is not None
        passed_ns = self._base_ns + elapsed
        if elapsed > _REBASE_NS:
            self._base, self._calibrating, self._base_ns = event, self._base, passed_ns
        return passed_ns, low, high
