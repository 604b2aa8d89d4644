"""Puts the device times of a step together from its marks, as they come in."""

from array import array

import numpy as np

from lightning_gpuprof.arrays import Int64
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.records.schema import NOT_MEASURED

OUTSIDE = -1
"""In the place of a step: what begins at this mark belongs to no step that is measured."""
WHOLE = -1
"""In the place of a part: what begins at this mark belongs to no named part of its phase."""
AFTER_GAP, SPOILED = 1, 2
"""Flags of a mark: marks before it were lost; its step is not measured."""
_PHASES = tuple(Phase)
_WIDTH = 2 + 2 * len(_PHASES)


class DeviceRows:
    """The step whose marks are coming in, and a row for each that is complete.

    Attributes:
        part_names: By the numbers of named parts.
    """

    def __init__(self) -> None:
        self.part_names: list[str] = []
        self._open = _OpenStep()
        self._rows: array[int] = array("q")
        self._part_rows: array[int] = array("q")

    @property
    def open_step(self) -> int:
        """The step to which what began at the last mark belongs, or `OUTSIDE`."""
        return self._open.step

    def part(self, name: str) -> int:
        """Return the number of a named part."""
        if name not in self.part_names:
            self.part_names.append(name)
        return self.part_names.index(name)

    def end(self, passed_ns: int, ahead_ns: int, *, flag: int, step: int) -> None:
        """A mark has come in: it ends what began at the one before, in a step.

        Args:
            passed_ns: When the device passed it.
            ahead_ns: The run-ahead there, or `NOT_MEASURED`.
            flag: What is special about the mark.
            step: To which belongs what begins here.
        """
        before = self._open
        spent = passed_ns - before.passed_ns
        if flag & AFTER_GAP or spent < 0:
            before.spoiled = True
        before.add(spent, ahead_ns)
        if step != before.step and not before.spoiled:
            self._rows.extend(before.row())
            for code, ns in before.parts.items():
                self._part_rows.extend((before.step, code, ns))

    def begin(self, passed_ns: int, *, flag: int, step: int, phase: int, part: int) -> None:
        """Begin what begins at a mark that has come in."""
        opened = self._open
        if step != opened.step:
            opened.begin(step)
        if flag & SPOILED:
            opened.spoiled = True
        opened.phase, opened.part, opened.passed_ns = phase, part, passed_ns

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
