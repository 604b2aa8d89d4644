"""The device's clock on the host's, and the device times of a step, put together from marks."""

from array import array

import numpy as np

from lightning_gpuprof.arrays import Int64
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.records.schema import NOT_MEASURED

OUTSIDE = -1
"""In the place of a step: the time after this mark belongs to no step that is measured."""
WHOLE = -1
"""In the place of a part: the time after this mark belongs to no named part of its phase."""
_PHASES = tuple(Phase)
_WIDTH = 2 + 2 * len(_PHASES)


class DeviceRows:
    """Puts the marks of steps together: a row for each step whose marks have all been read."""

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
        """Take the next mark: it ends what began at the mark before it."""
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
        """Return the columns of some steps, `NOT_MEASURED` where marks were lost or are late.

        Rows of these steps and of any before them are forgotten. Phases that none of the steps had
        are left out; in a step that did not have it, a phase's device time is 0 and its run-ahead
        not measured.
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
"""A calibration that is vaguer than this is dropped: launch latency is a tenth of it."""
_RATE_AFTER_NS = 10_000_000_000


class DeviceClock:
    """The line from device time to host time, in integer ns.

    An event recorded while the device is idle had not passed at host time `low`, but at `high`: so
    `(low + high) / 2 - device time` is the offset, wrong by at most half the distance. The rate at
    which the clocks drift apart comes from calibrations ten seconds apart. No device passes an
    event before the host recorded it: where the line says so, the offset is raised.
    """

    def __init__(self) -> None:
        self.error_ns: int | None = None
        self._first: tuple[int, int] | None = None
        self._newest_ns = self._offset_ns = 0
        self._rate = 0.0

    def calibrate(self, device_ns: int, *, low_ns: int, high_ns: int) -> bool:
        """Take a calibration; returns whether it was sharp enough to be of use."""
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
        """Return how long after the host recorded an event (host time) the device passed it."""
        if self.error_ns is None:
            return NOT_MEASURED
        drifted = round(self._rate * (device_ns - self._newest_ns))
        ahead = device_ns + self._offset_ns + drifted - recorded_ns
        if ahead < 0:
            self._offset_ns -= ahead
            return 0
        return ahead
