"""Computes the device times of steps from marks, and converts device time to host time."""

from array import array

import numpy as np

from lightning_gpuprof.arrays import Int64
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.records.schema import NOT_MEASURED

OUTSIDE = -1
"""Instead of a step's number: the time after a mark belongs to no step that is measured."""
WHOLE = -1
"""Instead of a part's number: the time after a mark belongs to no named part of its phase."""
_PHASES = tuple(Phase)
_WIDTH = 2 + 2 * len(_PHASES)


class DeviceRows:
    """Collects the marks of steps, and makes a row of every step whose marks have all been read."""

    def __init__(self) -> None:
        self.part_names: list[str] = []
        self.spoiled: set[int] = set()  # steps in which marks were lost
        self._phase, self._part, self._passed_ns = 0, WHOLE, 0
        self._rows: array[int] = array("q")
        self._part_rows: array[int] = array("q")
        self._begin(OUTSIDE, 0)

    def part(self, name: str) -> int:
        """Return the number of a named part."""
        if name not in self.part_names:
            self.part_names.append(name)
        return self.part_names.index(name)

    def passes(self, passed_ns: int, ahead_ns: int, step: int, phase: int, part: int) -> None:
        """Add the next mark, which ends the phase that began at the mark before."""
        if self.step != OUTSIDE:
            ended, spent = self._phase, passed_ns - self._passed_ns
            if spent < 0:
                self.spoiled.add(self.step)
            self._device_ns[ended] = max(0, self._device_ns[ended]) + spent
            self._ahead_ns[ended] = ahead_ns
            if self._part != WHOLE:
                code = self._part * len(_PHASES) + ended
                self._parts[code] = self._parts.get(code, 0) + spent
            if step != self.step and self.step not in self.spoiled:
                dur_ns = passed_ns - self._begun_ns
                self._rows.extend([self.step, dur_ns, *self._device_ns, *self._ahead_ns])
                for code, ns in self._parts.items():
                    self._part_rows.extend((self.step, code, ns))
        if step != self.step:
            self._begin(step, passed_ns)
        self._phase, self._part, self._passed_ns = phase, part, passed_ns

    def take(self, steps: Int64) -> dict[str, Int64]:
        """Return the columns of some steps, and drop the rows of these and of earlier steps.

        A value is `NOT_MEASURED` if marks of its step were lost or are late. A phase that occurred
        in none of the steps has no column. In a step without the phase, its device time is 0 and
        its run-ahead is `NOT_MEASURED`.
        """
        if not len(steps):
            return {}
        self.spoiled = {step for step in self.spoiled if step > steps[-1]}
        rows = np.frombuffer(self._rows, dtype=np.int64).reshape(-1, _WIDTH).copy()
        self._rows = array("q", rows[rows[:, 0] > steps[-1]].tobytes())
        rows = rows[np.isin(rows[:, 0], steps)]
        table = np.full((len(steps), _WIDTH), NOT_MEASURED, dtype=np.int64)
        table[np.searchsorted(steps, rows[:, 0])] = rows
        dur_ns = table[:, 1]
        parts = self._take_parts(steps, dur_ns)
        if not len(rows):
            return {}
        columns = {"device_dur": dur_ns}
        for number, phase in enumerate(_PHASES):
            device = table[:, 2 + number]
            ahead = table[:, 2 + len(_PHASES) + number]
            if (rows[:, 2 + number] == NOT_MEASURED).all():
                continue
            absent = (device == NOT_MEASURED) & (dur_ns != NOT_MEASURED)
            columns[f"device/{phase.value}"] = np.where(absent, 0, device)
            if (ahead != NOT_MEASURED).any():
                columns[f"run_ahead/{phase.value}"] = ahead
        return columns | parts

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

    def _begin(self, step: int, passed_ns: int) -> None:
        self.step, self._begun_ns = step, passed_ns
        self._device_ns = [NOT_MEASURED] * len(_PHASES)
        self._ahead_ns = [NOT_MEASURED] * len(_PHASES)
        self._parts: dict[int, int] = {}


MAX_ERROR_NS = 100_000
"""A calibration with a larger error is dropped, since launch latency is only a tenth of this."""
_RATE_AFTER_NS = 10_000_000_000


class DeviceClock:
    """Converts device time to host time by a linear function, in integer ns.

    The device passes an event, recorded while it is idle, between the host times `low` and `high`.
    The offset between the clocks is then `(low + high) / 2 - device time`, with an error of at most
    half the difference. The rate at which the clocks drift apart comes from calibrations that are
    ten seconds apart. No device passes an event before the host has recorded it. If the function
    says so, the offset is raised.
    """

    def __init__(self) -> None:
        self.error_ns: int | None = None
        self._first: tuple[int, int] | None = None
        self._newest_ns = self._offset_ns = 0
        self._rate = 0.0

    def calibrate(self, device_ns: int, *, low_ns: int, high_ns: int) -> bool:
        """Add a calibration, and return whether its error is small enough."""
        error = (high_ns - low_ns) // 2
        if error > MAX_ERROR_NS:
            return False
        offset = low_ns + error - device_ns
        if self._first is None:
            self._first = (device_ns, offset)
        first_ns, first_offset = self._first
        if device_ns - first_ns >= _RATE_AFTER_NS:
            self._rate = (offset - first_offset) / (device_ns - first_ns)
        self._newest_ns, self._offset_ns, self.error_ns = device_ns, offset, error
        return True

    def run_ahead(self, device_ns: int, recorded_ns: int) -> int:
        """Return how much later the device passed an event than the host recorded it.

        Args:
            device_ns: When the device passed it, in device time.
            recorded_ns: When the host recorded it, in host time.
        """
        if self.error_ns is None:
            return NOT_MEASURED
        drifted = round(self._rate * (device_ns - self._newest_ns))
        ahead = device_ns + self._offset_ns + drifted - recorded_ns
        if ahead < 0:
            self._offset_ns -= ahead
            return 0
        return ahead
