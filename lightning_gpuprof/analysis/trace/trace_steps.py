"""Steps that the profiler marked, and how the first device spent each."""

import re

from msgspec import Struct

from lightning_gpuprof.analysis.trace.grouping import named
from lightning_gpuprof.analysis.trace.time_split import DeviceSpans, TimeSplit, split_windows
from lightning_gpuprof.traces.timeline import CATEGORY_ID, HostEvents, Timeline, select

_STEP = re.compile(r"ProfilerStep\s*#?\s*\d+$")


class TraceStep(Struct, frozen=True):
    """A `ProfilerStep#N` on the host; `gpu` splits the device's time between its borders."""

    name: str
    start_ns: int
    dur_ns: int
    gpu: TimeSplit | None


def is_step(name: str) -> bool:
    """Tell whether a name is a profiler step's.

    >>> is_step("ProfilerStep#12"), is_step("aten::mm")
    (True, False)
    """
    return _STEP.match(name) is not None


def step_events(timeline: Timeline) -> HostEvents:
    """Return the step marks, in order of time.

    torch writes them as annotations; releases before 2022 wrote them as operators.
    """
    host = timeline.host
    marks = named(timeline, is_step) & (host.category != CATEGORY_ID["python_function"])
    return select(host, marks)


def trace_steps(timeline: Timeline, spans: DeviceSpans | None) -> tuple[TraceStep, ...]:
    """Return the steps in order; the device's time is cut at their borders on the host."""
    marks = step_events(timeline)
    splits = split_windows(spans, marks.start_ns, marks.end_ns) if spans else [None] * len(marks)
    return tuple(
        TraceStep(timeline.names[name], start, dur, split)
        for name, start, dur, split in zip(
            marks.name.tolist(), marks.start_ns.tolist(), marks.dur_ns.tolist(), splits, strict=True
        )
    )
