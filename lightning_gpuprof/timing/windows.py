"""Turns the timeline's rows into the records of a window."""

from collections.abc import Container, Iterator, Mapping, Sequence

import numpy as np

from lightning_gpuprof.arrays import Int64
from lightning_gpuprof.records.device_marks import device_marks
from lightning_gpuprof.records.phases import OWN_PART, SAMPLER, WORKERS, Phase
from lightning_gpuprof.records.schema import (
    UNTIMED_STEPS,
    Column,
    OutsideSpan,
    StepFlag,
    StepsWindow,
)
from lightning_gpuprof.shifts.step_rows import UNUSUAL, StepRows
from lightning_gpuprof.timing.phase_clock import ChargedRows, Slot
from lightning_gpuprof.timing.step_timeline import UNKNOWN_SAMPLES, Outside, StepTimeline
from lightning_gpuprof.units import rate

SMALLEST_PART_FRAC = 0.001
"""Parts below this share of a window's time are left out. Dozens of hooks take only a microsecond,
and their columns would make up most of the file."""

LONG = 1.3
"""A step is long if it takes so many times as long as the usual one."""
PHASE_NAMES = tuple(phase.value for phase in Phase)
_NOT_STEADY = int(StepFlag.WARMUP | StepFlag.WATCHED | StepFlag.PROFILED)
_COMPILING = int(StepFlag.COMPILED | StepFlag.WARMUP | StepFlag.UNFINISHED | StepFlag.VALIDATION)
_I4_MAX = 2**31 - 1
_OWN_KEY = f"{Phase.CALLBACKS.value}/{OWN_PART}"


class SlotTable:
    """The slots of a clock as arrays, prepared once for many windows.

    `own` are the names of this package's callbacks, whose time is written as that of one part.
    """

    def __init__(self, slots: Sequence[Slot], own: Container[str | None] = ()) -> None:
        self.width = len(slots)
        self.in_phase: Int64 = np.array(
            [[slot.phase is phase for slot in slots] for phase in Phase], dtype=np.int64
        )
        self.part_names = [
            None
            if slot.part is None or _is_own(slot, own)
            else f"part/{slot.phase.value}/{slot.part}"
            for slot in slots
        ]
        self.always_written = np.array(
            [slot.phase is Phase.DATA_WAIT and slot.part in (SAMPLER, WORKERS) for slot in slots]
        )
        self.own = np.array([_is_own(slot, own) for slot in slots], dtype=np.int64)


class Window:
    """A window of steps as arrays."""

    def __init__(
        self, facts: Int64, charged: Int64, slot_table: SlotTable, *, origin_ns: int
    ) -> None:
        self._facts = named = dict(zip(StepTimeline.FACTS, facts.T, strict=True))
        self.steps: Int64 = named["step"]
        self.flags: Int64 = named["flags"]
        self.count = len(facts)
        self._start_ns = named["start_ns"] - origin_ns
        self._dur_ns = named["end_ns"] - named["start_ns"]
        self.total_ns = int(self._dur_ns.sum())
        self._charged = charged.T
        self._slot_table = slot_table
        self._slot_total_ns = charged.sum(axis=0)
        self._phase_ns = slot_table.in_phase @ self._charged
        totals = zip(PHASE_NAMES, (slot_table.in_phase @ self._slot_total_ns).tolist(), strict=True)
        self.phase_total_ns = {name: total for name, total in totals if total}
        self._plain = plain = self.flags & _NOT_STEADY == 0
        self._own_ns = slot_table.own @ self._charged
        self.own_ns: list[int] = sorted(self._own_ns[plain].tolist())
        self.plain_ns = int(self._dur_ns[plain].sum())
        self.plain_count = int(plain.sum())
        self.device: Mapping[str, Int64] = {}
        self.long_steps: list[int] = []
        self.long_ns: list[int] = []
        """The long steps among those of the window that were not timed by phase."""

    def last(self, count: int) -> tuple[dict[str, int], int]:
        """Return the time of the last steps by phase, and all of it."""
        if count >= self.count:
            return self.phase_total_ns, self.total_ns
        totals = self._phase_ns[:, -count:].sum(axis=1).tolist()
        by_phase = {name: total for name, total in zip(PHASE_NAMES, totals, strict=True) if total}
        return by_phase, int(self._dur_ns[-count:].sum())

    def progress(self, count: int) -> Iterator[str]:
        """Yield how far training has come, how fast it is, and what the device does, if known.

        The speed is that of the last `count` steps.
        """
        samples, dur_ns = self._facts["samples"][-count:], self._dur_ns[-count:]
        yield f"step {int(self.steps[-1]) + 1:,}"
        if dur_ns.any() and (samples != UNKNOWN_SAMPLES).all():
            yield f"{rate(int(samples.sum()) / int(dur_ns.sum()) * 1e9)} samples/s"
        if (marks := device_marks(self.device, self._plain)) is not None:
            yield marks.line()

    def record(self) -> StepsWindow:
        """Return the record of this window."""
        facts = self._facts
        rows = {name: facts[name] for name in ("step", "epoch", "batch_idx", "flags")}
        rows["dur_ns"] = self._dur_ns
        if (facts["samples"] != UNKNOWN_SAMPLES).all():
            rows["samples"] = facts["samples"]
            rows["numbers"] = facts["numbers"]
        for name, values in zip(PHASE_NAMES, self._phase_ns, strict=True):
            if name in self.phase_total_ns:
                rows[f"phase/{name}"] = values
        least = max(1, self.total_ns * SMALLEST_PART_FRAC)
        # The parts of the wait for data are always written, since a short one is informative too.
        written = (self._slot_total_ns >= least) | (
            self._slot_table.always_written & (self._slot_total_ns > 0)
        )
        for number in np.flatnonzero(written).tolist():
            part = self._slot_table.part_names[number]
            if part is not None:
                rows[part] = self._charged[number]
        if self._own_ns.any():
            rows[f"part/{_OWN_KEY}"] = self._own_ns
        rows.update(self.device)
        columns = dict(zip(rows, _pack(np.array(list(rows.values()))), strict=True))
        columns["start_ns"] = _pack(self._start_ns[np.newaxis])[0]
        return StepsWindow(
            first_step=int(facts["step"][0]),
            count=self.count,
            total_ns=self.total_ns,
            phase_total_ns=self.phase_total_ns,
            columns=columns,
        )

    def rows(self) -> StepRows:
        """Return the times of these steps by phase, without this package's own."""
        phase_ns = dict(zip(Phase, self._phase_ns, strict=True))
        phase_ns[Phase.CALLBACKS] = phase_ns[Phase.CALLBACKS] - self._own_ns
        numbers = self._facts["numbers"]
        known = (numbers != UNKNOWN_SAMPLES).all()
        sizes, device_ns = numbers if known else None, self.device.get("device_dur")
        return StepRows(
            self.steps,
            self.flags,
            phase_ns,
            sizes,
            device_ns=device_ns,
            long_steps=np.array(self.long_steps, dtype=np.int64),
            long_ns=np.array(self.long_ns, dtype=np.int64),
        )

    def median_ms(self) -> dict[str, float]:
        """Return the median step and the median of each phase, in milliseconds."""
        medians = (np.median(self._phase_ns, axis=1) / 1e6).tolist()
        scalars = {"step_ms": float(np.median(self._dur_ns)) / 1e6}
        for name, value in zip(PHASE_NAMES, medians, strict=True):
            if name in self.phase_total_ns:
                scalars[f"{name}_ms"] = value
        return scalars


def outside_span(
    outside: Outside, slots: Sequence[Slot], *, origin_ns: int, own: Container[str | None] = ()
) -> OutsideSpan:
    """Return the record of a span outside of steps."""
    phase_ns: dict[str, int] = {}
    part_ns: dict[str, int] = {}
    (start_ns,), (end_ns,), (charged_ns,) = (row.tolist() for row in outside.cut)
    for slot, spent in zip(slots, charged_ns, strict=False):
        if not spent:
            continue
        phase = slot.phase.value
        phase_ns[phase] = phase_ns.get(phase, 0) + spent
        if slot.part is not None:
            key = _OWN_KEY if _is_own(slot, own) else f"{phase}/{slot.part}"
            part_ns[key] = part_ns.get(key, 0) + spent
    return OutsideSpan(
        where=outside.where,
        start_ns=start_ns - origin_ns,
        dur_ns=end_ns - start_ns,
        phase_ns=phase_ns,
        part_ns=part_ns,
        flagged={str(flag.name).lower(): 1 for flag in StepFlag if outside.flags & int(flag)},
    )


def untimed_span(
    facts: Int64,
    charged: Int64,
    slots: Sequence[Slot],
    *,
    origin_ns: int,
    own: Container[str | None] = (),
    written_step: int | None = None,
) -> OutsideSpan:
    """Return the record of steps that were not timed by phase.

    It holds their duration, the time of validation, checkpoints, loggers and garbage collections in
    them, the number of steps with every flag, and the durations of steps that compiled something.
    It also holds the steps that took long for no known reason. In `written_step`, the windows
    before were written.
    """
    named = dict(zip(StepTimeline.FACTS, facts.T, strict=True))
    charged_ns = charged.sum(axis=0)
    charged_ns[[slot.phase is Phase.OTHER for slot in slots[: len(charged_ns)]]] = 0
    cut = ChargedRows(named["start_ns"][:1], named["end_ns"][-1:], charged_ns[np.newaxis])
    span = outside_span(Outside(UNTIMED_STEPS, cut), slots, origin_ns=origin_ns, own=own)
    dur_ns, flags = named["end_ns"] - named["start_ns"], named["flags"]
    span.dur_ns, span.steps = int(dur_ns.sum()), len(facts)
    span.flagged = {
        str(flag.name).lower(): count
        for flag in StepFlag
        if (count := int(np.count_nonzero(flags & int(flag))))
    }
    span.compiled_ns = dur_ns[flags & _COMPILING == StepFlag.COMPILED].tolist()
    long = (flags & int(UNUSUAL) == 0) & (dur_ns > LONG * np.median(dur_ns))
    if written_step is not None:
        long &= named["step"] != written_step
    span.long_steps, span.long_ns = named["step"][long].tolist(), dur_ns[long].tolist()
    return span


def _is_own(slot: Slot, own: Container[str | None]) -> bool:
    """Return whether a slot has time of this package's own callbacks."""
    return slot.phase is Phase.CALLBACKS and slot.part in own


def _pack(rows: Int64) -> list[Column]:
    """Pack rows in the smallest type that holds all of them.

    Only the upper bound is checked, since no value is negative but a small one such as -1.
    """
    dtype = "i4" if rows.max() <= _I4_MAX else "i8"
    return [Column(dtype, row.tobytes()) for row in rows.astype("<" + dtype)]
