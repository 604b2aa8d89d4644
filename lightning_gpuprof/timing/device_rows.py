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

    def passes(
        self, passed_ns: int, ahead_ns: int, step: int, phase: int, part: int, flag: int
    ) -> None:
        """A mark has come in: it ends what began at the one before.

        All in one function, for it runs for each mark.

        Args:
            passed_ns: When the device passed it.
            ahead_ns: The run-ahead there, or `NOT_MEASURED`.
            step: To which belongs what begins here, or `OUTSIDE`.
            phase: By number, of what begins.
            part: Of the same, or `WHOLE`.
            flag: What is special about the mark.
        """
        opened = self._open
        if opened.step != OUTSIDE:
            ended, spent = opened.phase, passed_ns - opened.passed_ns
            if spent < 0 or flag & AFTER_GAP:
                opened.spoiled = True
            opened.device_ns[ended] = max(0, opened.device_ns[ended]) + spent
            opened.ahead_ns[ended] = ahead_ns
            if opened.part != WHOLE:
                code = opened.part * len(_PHASES) + ended
                opened.parts[code] = opened.parts.get(code, 0) + spent
            if step != opened.step and not opened.spoiled:
                self._rows.extend(opened.row(passed_ns))
                for code, ns in opened.parts.items():
                    self._part_rows.extend((opened.step, code, ns))
        if step != opened.step:
            opened.begin(step, passed_ns)
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
        self.begin(OUTSIDE, 0)

    def begin(self, step: int, passed_ns: int) -> None:
        self.step = step
        self.spoiled = False
        self.device_ns = [NOT_MEASURED] * len(_PHASES)
        self.ahead_ns = [NOT_MEASURED] * len(_PHASES)
        self.parts: dict[int, int] = {}
        self._begun_ns = passed_ns

    def row(self, ended_ns: int) -> list[int]:
        return [self.step, ended_ns - self._begun_ns, *self.device_ns, *self.ahead_ns]
