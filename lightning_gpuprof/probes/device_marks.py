"""Times a step's phases on the device: one event at each boundary, read when it has passed.

At each boundary that the host reaches, `mark` records one event of a pool on the current stream;
`harvest` asks the oldest whether the device has passed them and never waits. The device time of
a phase is what the device's clock says between the mark that begins it and the next: what the
device spent between the two boundaries, working or idle. Marks follow each other on one clock,
so a step's device phases add up to its device duration exactly.

The pool is bounded. A mark for which it has no event is lost and counted, and its step and the
one before are not measured. Neither is a step in which a CUDA graph is captured: no event may be
touched then. Nor one whose marks pass out of order, which they can where a user's own streams are
current at the boundaries.
"""

from array import array
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from lightning_gpuprof.probes.device_clock import DeviceClock
from lightning_gpuprof.probes.device_events import DeviceEvents
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.records.schema import NOT_MEASURED

CAPACITY = 2048
"""Marks in flight: about 200 steps' worth, far more than a device's queue holds; 40 KiB."""
OUTSIDE = -1
"""In the place of a step: what begins at this mark belongs to no step that is measured."""
WHOLE = -1
"""In the place of a part: what begins at this mark belongs to no named part of its phase."""
_HARVEST_EVERY = 256
"""Marks: a few hundred microseconds of taking them in, and never a whole pool at once."""
_REBASE_NS = 1_000_000_000
"""CUDA gives elapsed time in 32-bit floats of milliseconds: beyond a second they get coarse."""
_TRIES, _POLLS = 5, 200
_PHASES = tuple(Phase)
_WIDTH = 2 + 2 * len(_PHASES)
_AFTER_GAP, _SPOILED = 1, 2
Int64 = npt.NDArray[np.int64]


class DeviceMarks:
    """Marks in flight and the device times of the steps that came in.

    Args:
        events: The device's events.
        now: The host's clock, in ns.
        capacity: Marks in flight at most.

    Attributes:
        lost: Marks for which the pool had no event.
        marked: Marks recorded.
        mark_cost_ns: What recording one took, by the host's clock; None until calibrated.
        clock: From device time to host time.
        part_names: By the numbers of named parts.
    """

    def __init__(
        self, events: DeviceEvents, now: Callable[[], int], *, capacity: int = CAPACITY
    ) -> None:
        self.clock = DeviceClock()
        self.lost = self.marked = 0
        self.mark_cost_ns: int | None = None
        self.part_names: list[str] = []
        self._device = events
        self._now = now
        self._capacity = capacity
        self._events: list[Any] = []
        self._host_ns = array("q", bytes(8 * capacity))
        self._step = array("q", bytes(8 * capacity))
        self._phase = array("b", bytes(capacity))
        self._part = array("h", bytes(2 * capacity))
        self._flag = array("b", bytes(capacity))
        self._head = self._tail = 0
        self._gap = False
        self._spoiled = OUTSIDE
        self._base: Any = None
        self._base_ns = 0
        self._probe: Any = None
        self._open = _OpenStep()
        self._rows: array[int] = array("q")
        self._part_rows: array[int] = array("q")

    @property
    def in_flight(self) -> int:
        """Marks that the device was not yet seen to pass."""
        return self._head - self._tail

    @property
    def pending_step(self) -> int | None:
        """The first step of which a mark has yet to come in; None where there is none."""
        if self._open.step != OUTSIDE:
            return self._open.step
        in_flight = (self._step[at % self._capacity] for at in range(self._tail, self._head))
        return next((step for step in in_flight if step != OUTSIDE), None)

    def part(self, name: str) -> int:
        """Return the number of a named part."""
        if name not in self.part_names:
            self.part_names.append(name)
        return self.part_names.index(name)

    def mark(self, step: int, phase: int, host_ns: int, part: int = WHOLE) -> None:
        """Record a boundary: what begins here belongs to a phase (by number) of a step.

        Args:
            step: Or `OUTSIDE`.
            phase: By its place in `Phase`.
            host_ns: When the host reached the boundary.
            part: The named part of the phase that is innermost from here on.
        """
        if self._device.capturing():
            self._gap, self._spoiled = True, step
            return
        head = self._head
        full = head - self._tail >= self._capacity
        if full or not head % _HARVEST_EVERY:
            self.harvest()
            if head - self._tail >= self._capacity:
                self.lost += 1
                self._gap = True
                self._spoiled = step
                return
        at = head % self._capacity
        if at == len(self._events):
            self._events.append(self._device.new_event())
        self._device.record(self._events[at])
        self._host_ns[at] = host_ns
        self._step[at] = step
        self._phase[at] = phase
        self._part[at] = part
        self._flag[at] = 0
        if self._gap or self._spoiled != OUTSIDE:
            self._note_loss(at, step)
        self._head = head + 1
        self.marked += 1

    def relabel(self, phase: int) -> None:
        """Give what began at the newest mark to another phase."""
        self._phase[(self._head - 1) % self._capacity] = phase

    def harvest(self) -> None:
        """Take in the marks that the device has passed, in order."""
        device, events, capacity = self._device, self._events, self._capacity
        while self._tail < self._head:
            at = self._tail % capacity
            event = events[at]
            if not device.query(event):
                return
            if self._base is None:
                self._base, events[at] = event, device.new_event()
                passed_ns = self._base_ns
            else:
                elapsed = device.elapsed_ns(self._base, event)
                passed_ns = self._base_ns + elapsed
                if elapsed > _REBASE_NS:
                    self._base, events[at] = event, self._base
                    self._base_ns = passed_ns
            self._tail += 1
            self._pass(at, passed_ns)

    def calibrate(self) -> bool:
        """Tie the two clocks together if the device is idle; takes some microseconds.

        Returns:
            False where the device was busy, or seemed to be: then nothing has changed.
        """
        if self.in_flight:
            return False
        best: tuple[int, int, int] | None = None
        for _ in range(_TRIES):
            reading = self._try_calibration()
            if reading is None:
                return False
            if best is None or reading[2] - reading[1] < best[2] - best[1]:
                best = reading
        assert best is not None
        return self.clock.calibrate(best[0], low_ns=best[1], high_ns=best[2])

    def take(self, steps: Int64) -> dict[str, Int64]:
        """Return the columns of some steps, `NOT_MEASURED` where marks were lost or are late.

        What came in of them, and of any step before them, is forgotten. Phases that none of the
        steps had are left out; in a step that did not have it, a phase's device time is 0 and
        its run-ahead not measured.
        """
        rows = np.frombuffer(self._rows, dtype=np.int64).reshape(-1, _WIDTH).copy()
        last = int(steps[-1]) if len(steps) else OUTSIDE
        self._rows = array("q", rows[rows[:, 0] > last].tobytes())
        found = np.isin(rows[:, 0], steps)
        table = np.full((len(steps), _WIDTH), NOT_MEASURED, dtype=np.int64)
        table[np.searchsorted(steps, rows[found, 0])] = rows[found]
        if not found.any():
            if len(steps):
                self._take_parts(steps, table[:, 1])
            return {}
        columns = {"device_dur": table[:, 1]}
        for number, phase in enumerate(_PHASES):
            device = table[:, 2 + number]
            ahead = table[:, 2 + len(_PHASES) + number]
            ran = rows[found, 2 + number] != NOT_MEASURED
            if not ran.any():
                continue
            absent = (device == NOT_MEASURED) & (table[:, 1] != NOT_MEASURED)
            columns[f"device/{phase.value}"] = np.where(absent, 0, device)
            if (ahead != NOT_MEASURED).any():
                columns[f"run_ahead/{phase.value}"] = ahead
        return columns | self._take_parts(steps, columns["device_dur"])

    def _take_parts(self, steps: Int64, dur_ns: Int64) -> dict[str, Int64]:
        rows = np.frombuffer(self._part_rows, dtype=np.int64).reshape(-1, 3).copy()
        self._part_rows = array("q", rows[rows[:, 0] > steps[-1]].tobytes())
        rows = rows[np.isin(rows[:, 0], steps)]
        columns = {}
        for code in np.unique(rows[:, 1]).tolist():
            part, phase = divmod(code, len(_PHASES))
            chosen = rows[rows[:, 1] == code]
            column = np.where(dur_ns == NOT_MEASURED, NOT_MEASURED, 0)
            column[np.searchsorted(steps, chosen[:, 0])] = chosen[:, 2]
            columns[f"device_part/{_PHASES[phase].value}/{self.part_names[part]}"] = column
        return columns

    def _note_loss(self, at: int, step: int) -> None:
        flag = _AFTER_GAP if self._gap else 0
        if step == self._spoiled:
            flag |= _SPOILED
        else:
            self._spoiled = OUTSIDE
        self._gap = False
        self._flag[at] = flag

    def _pass(self, at: int, passed_ns: int) -> None:
        """A mark has come in: it ends what began at the one before."""
        host_ns, step, phase, flag = (
            self._host_ns[at],
            self._step[at],
            self._phase[at],
            self._flag[at],
        )
        before = self._open
        if before.step != OUTSIDE:
            spent = passed_ns - before.passed_ns
            if flag & _AFTER_GAP or spent < 0:
                before.spoiled = True
            ahead = self.clock.run_ahead(passed_ns, host_ns)
            before.add(spent, NOT_MEASURED if ahead is None else ahead)
            if step != before.step:
                if not before.spoiled:
                    self._rows.extend(before.row())
                    for code, ns in before.parts.items():
                        self._part_rows.extend((before.step, code, ns))
        if step != before.step:
            before.begin(step)
        if flag & _SPOILED:
            before.spoiled = True
        before.phase = phase
        before.part = self._part[at]
        before.passed_ns = passed_ns

    def _try_calibration(self) -> tuple[int, int, int] | None:
        device, now = self._device, self._now
        if self._probe is None:
            self._probe = device.new_event()
        probe = self._probe
        low = begin = now()
        device.record(probe)
        recorded = now()
        for _ in range(_POLLS):
            asked = now()
            if device.query(probe):
                high = now()
                break
            low = asked  # not passed by then
        else:
            return None
        cost = recorded - begin
        self.mark_cost_ns = cost if self.mark_cost_ns is None else min(cost, self.mark_cost_ns)
        if self._base is None:
            self._base, self._probe = probe, None
            return self._base_ns, low, high
        elapsed = device.elapsed_ns(self._base, probe)
        passed_ns = self._base_ns + elapsed
        if elapsed > _REBASE_NS:
            self._base, self._probe, self._base_ns = probe, self._base, passed_ns
        return passed_ns, low, high


class _OpenStep:
    """The step whose marks are coming in."""

    def __init__(self) -> None:
        self.passed_ns = self.phase = 0
        self.part = WHOLE
        self.begin(OUTSIDE)

    def begin(self, step: int) -> None:
        self.step = step
        self.spoiled = False
        self._device_ns = [NOT_MEASURED] * len(_PHASES)
        self._ahead_ns = [NOT_MEASURED] * len(_PHASES)
        self._dur_ns = 0
        self.parts: dict[int, int] = {}

    def add(self, spent_ns: int, ahead_ns: int) -> None:
        """Add what was spent in the phase that is open, and the run-ahead at its end."""
        phase = self.phase
        self._device_ns[phase] = max(0, self._device_ns[phase]) + spent_ns
        self._ahead_ns[phase] = ahead_ns
        self._dur_ns += spent_ns
        if self.part != WHOLE:
            code = self.part * len(_PHASES) + phase
            self.parts[code] = self.parts.get(code, 0) + spent_ns

    def row(self) -> list[int]:
        return [self.step, self._dur_ns, *self._device_ns, *self._ahead_ns]
