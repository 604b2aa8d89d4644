"""Turns the timeline's rows into the records of a window."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from lightning_gpuprof.probes.phase_clock import Slot
from lightning_gpuprof.probes.step_timeline import UNKNOWN_SAMPLES, Outside, StepRow
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.records.schema import Column, OutsideSpan, StepsWindow

SMALLEST_PART_FRAC = 0.001
"""Parts below this share of a window's time are left out of it: dozens of hooks take a
microsecond each, and their columns would be most of the file."""

_Table = npt.NDArray[np.int64]
_I4_MAX = 2**31 - 1


class Window:
    """A window of steps as arrays: rows are steps.

    Attributes:
        total_ns: Wall time of the steps together.
        phase_ns: By phase, one value per step; only phases with any time.
        part_ns: By `<phase>/<name>`, likewise.
        dur_ns: One value per step.
    """

    def __init__(self, rows: Sequence[StepRow], slots: Sequence[Slot], *, origin_ns: int) -> None:
        table = _table([row.cut.charged_ns for row in rows], len(slots))
        self._rows = rows
        self.start_ns: _Table = np.array([row.cut.start_ns for row in rows]) - origin_ns
        self.dur_ns: _Table = np.array([row.cut.end_ns - row.cut.start_ns for row in rows])
        self.total_ns = int(self.dur_ns.sum())
        self.phase_ns: dict[str, _Table] = {}
        self.part_ns: dict[str, _Table] = {}
        totals = table.sum(axis=0)
        for number in np.flatnonzero(totals).tolist():
            phase, part = slots[number]
            column = table[:, number]
            known = self.phase_ns.get(phase.value)
            self.phase_ns[phase.value] = column if known is None else known + column
            if part is not None:
                self.part_ns[f"{phase.value}/{part}"] = column

    def record(self) -> StepsWindow:
        """Return the record of this window."""
        rows = self._rows
        columns = {
            "step": [row.step for row in rows],
            "epoch": [row.epoch for row in rows],
            "batch_idx": [row.batch_idx for row in rows],
            "flags": [row.flags for row in rows],
        }
        samples = [row.samples for row in rows]
        if UNKNOWN_SAMPLES not in samples:
            columns["samples"] = samples
        packed = {name: _pack(np.array(values)) for name, values in columns.items()}
        packed["start_ns"] = _pack(self.start_ns)
        packed["dur_ns"] = _pack(self.dur_ns)
        for phase in Phase:
            if phase.value in self.phase_ns:
                packed[f"phase/{phase.value}"] = _pack(self.phase_ns[phase.value])
        least = self.total_ns * SMALLEST_PART_FRAC
        for name, values in self.part_ns.items():
            if values.sum() >= least:
                packed[f"part/{name}"] = _pack(values)
        return StepsWindow(
            first_step=rows[0].step,
            count=len(rows),
            total_ns=self.total_ns,
            phase_total_ns=self.phase_total_ns(),
            columns=packed,
        )

    def phase_total_ns(self) -> dict[str, int]:
        """Return the wall time by phase."""
        return {phase: int(values.sum()) for phase, values in self.phase_ns.items()}

    def median_ms(self) -> dict[str, float]:
        """Return the median step and the median of each phase, in milliseconds."""
        medians = {"step_ms": float(np.median(self.dur_ns)) / 1e6}
        for phase, values in self.phase_ns.items():
            medians[f"{phase}_ms"] = float(np.median(values)) / 1e6
        return medians


def outside_span(outside: Outside, slots: Sequence[Slot], *, origin_ns: int) -> OutsideSpan:
    """Return the record of a span outside steps."""
    phase_ns: dict[str, int] = {}
    part_ns: dict[str, int] = {}
    for (phase, part), spent in zip(slots, outside.cut.charged_ns, strict=False):
        if not spent:
            continue
        phase_ns[phase.value] = phase_ns.get(phase.value, 0) + spent
        if part is not None:
            part_ns[f"{phase.value}/{part}"] = spent
    return OutsideSpan(
        where=outside.where,
        start_ns=outside.cut.start_ns - origin_ns,
        dur_ns=outside.cut.end_ns - outside.cut.start_ns,
        phase_ns=phase_ns,
        part_ns=part_ns,
    )


def _table(charged: Sequence[Sequence[int]], width: int) -> _Table:
    """Return the rows as one array; a row from before a slot was added ends in zeros."""
    if all(len(row) == width for row in charged):
        return np.array(charged, dtype=np.int64)
    table = np.zeros((len(charged), width), dtype=np.int64)
    for number, row in enumerate(charged):
        table[number, : len(row)] = row
    return table


def _pack(values: _Table) -> Column:
    # Times and counts are never negative but for a marker, so one bound is enough.
    if values.max() <= _I4_MAX:
        return Column("i4", values.astype("<i4").tobytes())
    return Column("i8", values.astype("<i8").tobytes())
