"""Times a step's phases on the device, by marks that are read after the device has passed them.

`harvest` never waits. A phase's device time is the time from its mark to the next mark, whether the
device works or idles. Therefore the device times of a step's phases add up to the step's device
duration exactly. If the pool has no event for a mark, the mark is lost, and neither its step nor
the step before is measured. The same holds for a step in which a CUDA graph is captured, and for a
step whose marks pass out of order, which can happen if the user's program has several streams.
"""

from array import array
from collections.abc import Callable
from statistics import median_low
from typing import Any

from lightning_gpuprof.adapters.device_events import DeviceEvents
from lightning_gpuprof.timing.device_rows import OUTSIDE, WHOLE, DeviceClock, DeviceRows

CAPACITY = 2048
"""How many marks can be in flight: those of about 200 steps, which is far more than the queue of a
device holds. They take 40 KiB."""
_HARVEST_EVERY = 64
"""The marks of about eight steps. Reading so many together makes no step much longer."""
_REBASE_NS = 1_000_000_000
"""CUDA returns elapsed time as a 32-bit float in milliseconds, which is too coarse above a
second."""
_TRIES, _POLLS = 5, 200


class DeviceMarks:
    """The marks in flight, and the device times of the steps whose marks have been read.

    A mark is in flight from when the host records it until it is read.

    Attributes:
        clock: Converts device time to host time.
        marked: How many marks have been recorded.
        lost: How many marks were lost because there was no free event.
        own_ns: The host's time for recording and reading marks.
        queueing_ns: The host's time for queueing an event; None before the first calibration.
    """

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
        """The first step that has a mark in flight; None if there is none."""
        if self._rows.step != OUTSIDE:
            return self._rows.step
        in_flight = (self._step[mark % self._capacity] for mark in range(self._tail, self.marked))
        return next((step for step in in_flight if step != OUTSIDE), None)

    def mark(self, step: int, phase: int, host_ns: int, part: int = WHOLE) -> None:
        """Record a mark. The time after it belongs to a phase (by number) of a step."""
        head = self.marked
        if head == self._due and not self._make_room(head):
            self.lost += 1
            self._spoil(head, step)
            return
        index = head % self._capacity
        self._host_ns[index] = host_ns
        self._step[index] = step
        self._phase[index] = phase
        self._part[index] = part
        self.own_ns += self._now() - host_ns
        if not self._device.record(self._events[index]):
            self._spoil(head, step)
            return
        self.marked = head + 1

    def relabel(self, phase: int) -> None:
        """Give the time since the newest mark to another phase."""
        self._phase[(self.marked - 1) % self._capacity] = phase

    def harvest(self) -> None:
        """Read the marks that the device has passed, in order."""
        device, events, capacity = self._device, self._events, self._capacity
        while self._tail < self.marked:
            index = self._tail % capacity
            event = events[index]
            if self._base is None:
                if not device.query(event):
                    return
                self._base, events[index] = event, device.new_event()
                passed_ns = self._base_ns
            else:
                elapsed = device.elapsed_ns(self._base, event)
                if elapsed is None:
                    return
                passed_ns = self._base_ns + elapsed
                if elapsed > _REBASE_NS:
                    self._base, events[index] = event, self._base
                    self._base_ns = passed_ns
            self._tail += 1
            ahead_ns = self.clock.run_ahead(passed_ns, self._host_ns[index])
            step, phase, part = self._step[index], self._phase[index], self._part[index]
            self._rows.passes(passed_ns, ahead_ns, step, phase, part)

    def calibrate(self) -> bool:
        """Relate the two clocks, and return whether that was possible.

        It is possible only while the device is idle. This takes some microseconds.
        """
        if self.marked > self._tail:  # marks are in flight, so the device is not idle
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
        """Read passed marks, and prepare events for the next marks; False if there is no room."""
        if not self._device.capturing():
            self.harvest()
        room = self._tail + self._capacity - head
        if room > 0:
            self._due = due = head + min(room, _HARVEST_EVERY)
            missing = min(due, self._capacity) - len(self._events)
            self._events.extend(self._device.new_event() for _ in range(missing))
        return room > 0

    def _spoil(self, head: int, step: int) -> None:
        """Note that a mark is lost, so that its step and the step before cannot be measured."""
        self._rows.spoiled.update((step, self._step[(head - 1) % self._capacity]))

    def _try_calibration(self) -> tuple[int, int, int] | None:
        """Return when the device passed an event: its own time, and two bounds in host time."""
        device, now = self._device, self._now
        event = self._calibrating = self._calibrating or device.new_event()
        low_ns = begin_ns = now()
        if not device.record(event):
            return None
        recorded_ns = now()
        for _ in range(_POLLS):
            query_ns = now()
            if device.query(event):
                high_ns = now()
                break
            low_ns = query_ns  # the device had not passed the event by then
        else:
            return None
        self._queueing.append(recorded_ns - begin_ns)
        if self._base is None:
            self._base, self._calibrating = event, None
            return self._base_ns, low_ns, high_ns
        elapsed = device.elapsed_ns(self._base, event)
        assert elapsed is not None
        passed_ns = self._base_ns + elapsed
        if elapsed > _REBASE_NS:
            self._base, self._calibrating, self._base_ns = event, self._base, passed_ns
        return passed_ns, low_ns, high_ns
