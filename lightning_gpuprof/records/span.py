"""A span of a run's steps, as `RUN@0-4000` names it, and the records of these steps alone."""

import os
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

import msgspec
import numpy as np
from typing_extensions import override

from lightning_gpuprof.arrays import Int64
from lightning_gpuprof.errors import ConfigError, RecordError
from lightning_gpuprof.records import facts, schema
from lightning_gpuprof.records.files import LOCAL, FileSystem
from lightning_gpuprof.records.lines import (
    CapturedLines,
    HostLines,
    LineCount,
    ModuleCalls,
    OutsideLines,
    WorkerLines,
)
from lightning_gpuprof.records.reader import Session
from lightning_gpuprof.records.step_columns import missing_value

_SPAN = re.compile(r"([0-9]{0,15})-([0-9]{0,15})")
_HOW = "Write RUN@0-4000 for its steps 0 to 4,000, or RUN@4200- for all from step 4,200 on"
_OF_ALL_STEPS = (
    *(facts.CoreWait, facts.CpuQuota, facts.IoPressure, facts.PageFaults, facts.MetricStates),
    *(OutsideLines, WorkerLines, ModuleCalls),
)
"""Records that sum up a session without saying in which of its steps."""
_OF_FIRST_STEPS = (facts.StageWork, facts.BatchSizes)
"""Records of what came before a session's first step, or of its first batches."""


@dataclass(frozen=True)
class StepSpan:
    """Steps of a session by their numbers, from `first` to `last` (None: to the end)."""

    first: int
    last: int | None = None

    @override
    def __str__(self) -> str:
        return f"{self.first}-{'' if self.last is None else self.last}"

    def __contains__(self, step: int) -> bool:
        return self.first <= step and (self.last is None or step <= self.last)

    @property
    def label(self) -> str:
        """The span in words, such as `steps 0 to 4,000`."""
        if self.last is None:
            return f"steps from {self.first:,}"
        return f"steps {self.first:,} to {self.last:,}"

    def common(self, other: "StepSpan") -> "StepSpan | None":
        """Return the steps that both spans have; None if there are none."""
        ends = [span.last for span in (self, other) if span.last is not None]
        both = StepSpan(max(self.first, other.first), min(ends, default=None))
        return None if both.last is not None and both.last < both.first else both


def split_span(path: str, fs: FileSystem = LOCAL) -> tuple[str, StepSpan | None]:
    """Return a run's path without the span behind it, and the span; None if it names none.

    >>> split_span("logs/version_0@4200-")
    ('logs/version_0', StepSpan(first=4200, last=None))

    Raises:
        ConfigError: What follows the `@` is no span, or the span ends before it begins.
    """
    run, at, text = path.rpartition("@")
    if not at or not run or "/" in text or os.sep in text or fs.exists(path):
        return path, None
    bounds = _SPAN.fullmatch(text)
    if bounds is None or text == "-":
        if not fs.exists(run):
            return path, None  # the path of a run that does not exist
        raise ConfigError(f"{path}: {text!r} is no span of steps. {_HOW}.")
    first, last = int(bounds[1] or 0), int(bounds[2]) if bounds[2] else None
    if last is not None and last < first:
        raise ConfigError(f"{path} ends before it begins. {_HOW}.")
    return run, StepSpan(first, last)


def steps_in(session: Session, span: StepSpan) -> Session:
    """Return the part of a session that a span of its steps covers.

    Times count from the span's beginning, which is that of its first step; what lies between two
    steps belongs to the earlier. A span that begins with the session's first step has its setup,
    too, and one that has its last step also what follows. Records that sum up the whole session
    are left out, and so are profiler cycles that the span has not all steps of. Of sampled lines,
    also of those of captures, the samples in the span's steps are left. Steps that were not timed
    by phase count where the first of their window does.

    Raises:
        RecordError: The session recorded no step of the span.
    """
    numbers = session.step_numbers
    low = int(np.searchsorted(numbers, span.first))
    high = len(numbers)
    if span.last is not None:
        high = int(np.searchsorted(numbers, span.last, side="right"))
    if low >= high:
        raise RecordError(_lacking(session, numbers, span))
    if (low, high) == (0, len(numbers)):
        return session
    return _Part(session, span, low, high).session()


def _lacking(session: Session, numbers: Int64, span: StepSpan) -> str:
    number = session.start.session
    if not len(numbers):
        return f"Session {number} has no {span.label}: it recorded no step."
    recorded = f"{int(numbers[0]):,} to {int(numbers[-1]):,}"
    return f"Session {number} has no {span.label}: it recorded steps {recorded}."


class _Part:
    """The steps of a session from index `low` to `high` (exclusive), with the records of them."""

    def __init__(self, session: Session, span: StepSpan, low: int, high: int) -> None:
        self._whole, self._span = session, span
        self._steps = slice(low, high)
        self._has_first = low == 0
        start_ns = session.columns["start_ns"]
        self._begin_ns = int(start_ns[low]) if low else 0
        self._end_ns = int(start_ns[high]) if high < session.steps else None

    def session(self) -> Session:
        """Return the part as a session of its own."""
        columns = {name: values[self._steps] for name, values in self._whole.columns.items()}
        # A part that takes no time in a window has no column there: neither has it in the span.
        columns = {
            name: values
            for name, values in columns.items()
            if "/" not in name or (values != missing_value(name)).any()
        }
        columns["start_ns"] = columns["start_ns"] - self._begin_ns
        began = self._whole.start.started_unix_ns + self._begin_ns
        start = msgspec.structs.replace(self._whole.start, started_unix_ns=began)
        others = (self._within(record) for record in self._whole.records[1:])
        records = [start, *(record for record in others if record is not None)]
        records += self._sampled()
        if (end := self._end(records, len(columns["start_ns"]))) is not None:
            records.append(end)
        return replace(self._whole, start=start, records=tuple(records), columns=columns)

    def _within(self, record: schema.Record) -> schema.Record | None:
        """Return a record, or what of it lies in the span; None for one that does not."""
        if isinstance(record, (schema.RunEnd, HostLines, CapturedLines, *_OF_ALL_STEPS)):
            return None
        if isinstance(record, facts.SlowDown):
            return record if record.since_step in self._span else None
        if isinstance(record, _OF_FIRST_STEPS):
            return record if self._has_first else None
        if isinstance(record, schema.Scalars):
            return self._scalars(record)
        if isinstance(record, schema.ProfilerCycle):
            whole = record.first_step in self._span and record.last_step in self._span
            return record if whole else None
        if isinstance(record, schema.OutsideSpan):
            begins = record.start_ns >= self._begin_ns
            if not begins or (self._end_ns is not None and record.start_ns >= self._end_ns):
                return None
            start_ns = record.start_ns - self._begin_ns
            return msgspec.structs.replace(record, start_ns=start_ns)
        if (step := getattr(record, "step", None)) is not None and step not in self._span:
            return None
        if isinstance(record, schema.DeviceSample):
            start_ns, end_ns = record.start_ns - self._begin_ns, record.end_ns - self._begin_ns
            return msgspec.structs.replace(record, start_ns=start_ns, end_ns=end_ns)
        return record

    def _sampled(self) -> Iterator[HostLines | WorkerLines]:
        """Yield the samples of the span's steps, those of captures together with the others."""
        of_captures = self._whole.all(CapturedLines)
        recorded = [self._whole.last(HostLines), *(captured.host for captured in of_captures)]
        parts = [part for lines in recorded if lines and (part := self._lines(lines))]
        for captured in of_captures:  # workers are sampled at the same time, without the step
            if captured.workers is not None and captured.host in parts:
                yield captured.workers
        if len(parts) == 1:
            yield parts[0]
        elif parts:
            by_phase = Counter[str]()
            for part in parts:
                by_phase.update(part.by_phase)
            yield HostLines(
                sum(part.whole for part in parts),
                tuple(line for part in parts for line in part.lines),
                dict(by_phase),
                steps=tuple(step for part in parts for step in part.steps),
            )

    def _lines(self, lines: HostLines) -> HostLines | None:
        """Return the samples of steps in the span; None if there are none, or it is not known.

        Of samples outside of the listed lines, which phase they are of is estimated.
        """
        first, last = lines.first_step, lines.last_step
        if first is not None and last is not None and first in self._span and last in self._span:
            return lines
        whole = sum(step in self._span for step in lines.steps)
        if not whole:
            return None
        inside = [self._samples(line) for line in lines.lines]
        listed, listed_inside = Counter[str](), Counter[str]()
        for line, part in zip(lines.lines, inside, strict=True):
            listed[line.phase] += line.count
            listed_inside[line.phase] += part.count
        others = lines.whole - listed.total()
        others_frac = (whole - listed_inside.total()) / others if others > 0 else 0.0
        by_phase = {
            phase: listed_inside[phase] + round(max(0, count - listed[phase]) * others_frac)
            for phase, count in lines.by_phase.items()
        }
        return HostLines(
            whole,
            tuple(line for line in inside if line.count),
            {phase: count for phase, count in by_phase.items() if count},
            steps=tuple(step for step in lines.steps if step in self._span),
        )

    def _samples(self, line: LineCount) -> LineCount:
        steps = tuple(step for step in line.steps if step in self._span)
        doubt = min(line.doubt, len(steps))
        return msgspec.structs.replace(line, count=len(steps), doubt=doubt, steps=steps)

    def _scalars(self, record: schema.Scalars) -> schema.Scalars | None:
        inside = [index for index, step in enumerate(record.steps) if step in self._span]
        if not inside:
            return None
        return msgspec.structs.replace(
            record,
            steps=[record.steps[index] for index in inside],
            values={
                name: [values[index] for index in inside if index < len(values)]
                for name, values in record.values.items()
            },
        )

    def _end(self, records: list[schema.Record], timed: int) -> schema.RunEnd | None:
        """Return the closing record: a span that the session went on after has finished."""
        end = self._whole.end
        if self._end_ns is None:
            if end is None:
                return None
            wall_ns = end.wall_ns - self._begin_ns
        else:
            wall_ns = self._end_ns - self._begin_ns
            end = end or schema.RunEnd(status="finished", wall_ns=0, steps=0)
            end = msgspec.structs.replace(end, status="finished", error=None)
        untimed = sum(record.steps for record in records if isinstance(record, schema.OutsideSpan))
        steps = timed + untimed
        return msgspec.structs.replace(end, wall_ns=max(0, wall_ns), steps=steps)
