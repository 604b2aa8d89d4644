"""The marks of a trace's steps: torch.profiler's, or in inference those of the program itself."""

import re
from statistics import median_low

import numpy as np

from lightning_gpuprof.analysis.trace.grouping import distinct, matching, named
from lightning_gpuprof.analysis.trace.linked_trace import Launches
from lightning_gpuprof.analysis.trace.purpose import purpose_of
from lightning_gpuprof.arrays import Int64, Mask
from lightning_gpuprof.traces.timeline import (
    CATEGORY_ID,
    HostEvents,
    Timeline,
    of_category,
    select,
)

_STEP = re.compile(r"ProfilerStep\s*#?\s*\d+$")
_MODEL_CALL = re.compile(
    r"(?<![a-z])(?:execute|forward|prefill|decode|extend|generat(?:e|ion)|predict|infer|inference"
    r"|step|iteration)(?![a-z])",
    re.IGNORECASE,
)
"""Words in the names of ranges around one call of a model: they may be the steps of inference."""
_HOOK = re.compile(r"(?:^|[.\]])on_|\[Callback\]")
_PREFIX = re.compile(r"^(?:\[[^\]]*\])+\s*")
_PHASE = re.compile(r"(?:prefill|decode|extend|verify|mixed)(?![a-z])", re.IGNORECASE)
_VARIES = re.compile(r"[\[(#]|(?<![A-Za-z])\d|\d+$")
MIN_MARKS = 3
SLOW_STEP = 2
"""A step that takes so many times the median one is not a usual one."""


def is_step(name: str) -> bool:
    """Return whether a name is a profiler step's."""
    return _STEP.match(name) is not None


def step_events(timeline: Timeline) -> HostEvents:
    """Return the step marks, in order of time.

    torch writes them as annotations; releases before 2022 wrote them as operators. Without such
    marks, the steps of inference are the ranges around each call of the model.
    """
    host = timeline.host
    marks = _profiler_marks(timeline)
    return select(host, marks if marks.any() else _model_calls(timeline))


def _profiler_marks(timeline: Timeline) -> Mask:
    not_python: Mask = timeline.host.category != CATEGORY_ID["python_function"]
    return named(timeline, is_step) & not_python


def _model_calls(timeline: Timeline) -> Mask:
    """Return which ranges are calls of a model in inference; none in any other trace.

    Of several kinds of such ranges, which may lie inside each other, the one that takes most time
    is chosen.
    """
    host = timeline.host
    calls = np.zeros(len(host), dtype=np.bool_)
    ranges = np.flatnonzero(of_category(host, "user_annotation", "other"))
    ranges = ranges[matching(timeline, host.name[ranges], _names_a_call)]
    if len(ranges) < MIN_MARKS or purpose_of(timeline) != "inference":
        return calls
    kinds = np.array([model_call(timeline.names[name]) for name in host.name[ranges].tolist()])
    best_ns = 0
    for kind in sorted(set(kinds.tolist())):
        rows = _outermost(host, ranges[kinds == kind])
        total_ns = int(host.dur_ns[rows].sum())
        if len(rows) >= MIN_MARKS and total_ns > best_ns:
            best_ns, calls = total_ns, np.zeros(len(host), dtype=np.bool_)
            calls[rows] = True
    return calls


def _names_a_call(name: str) -> bool:
    return _MODEL_CALL.search(name) is not None and _HOOK.search(name) is None


def model_call(name: str) -> str:
    """Return what the names of all calls of a model have in common: what is before figures.

    >>> model_call("execute_context_0(0)_generation_16(16)"), model_call("step[DECODE bs=16]")
    ('execute_context_', 'step')
    >>> model_call("[Executor] _forward_step 12: 0 ctx reqs")
    '_forward_step'
    >>> model_call("gpu_model_runner: forward")
    'gpu_model_runner: forward'
    >>> model_call("prefill[bs=2]") == model_call("decode[bs=64]")
    True
    """
    own = _PREFIX.sub("", name)
    if _PHASE.match(own):
        return "prefill or decode"
    return _VARIES.split(own, maxsplit=1)[0].strip()


def _outermost(host: HostEvents, rows: Int64) -> Int64:
    """Return the rows that lie inside no other of their thread."""
    outer = []
    ends: dict[int, int] = {}
    for row in rows.tolist():
        thread = int(host.thread[row])
        if thread not in ends or host.start_ns[row] >= ends[thread]:
            outer.append(row)
            ends[thread] = int(host.start_ns[row] + host.dur_ns[row])
    return np.array(outer, dtype=np.int64)


def processes(timeline: Timeline) -> Int64:
    """Return the index of each thread's process."""
    numbers: dict[int | str, int] = {}
    of_thread = [numbers.setdefault(thread.pid, len(numbers)) for thread in timeline.threads]
    return np.array(of_thread, dtype=np.int64)


def marks_of(timeline: Timeline, launches: Launches, marks: HostEvents, device: int) -> Mask:
    """Return which marks are of the processes that launch work on a device.

    All are if the marks are of one process, or if it is not known who launched the device's work.
    """
    every = np.ones(len(marks), dtype=np.bool_)
    of_thread = processes(timeline)
    if not len(marks) or len(distinct(of_thread[marks.thread])) < 2:
        return every
    here = (timeline.device.device == device) & (launches.call >= 0)
    callers = distinct(of_thread[timeline.host.thread[launches.call[here]]])
    own: Mask = np.isin(of_thread[marks.thread], callers)
    return own if own.any() else every


def usual_steps(timeline: Timeline) -> Mask:
    """Return which step marks are not far longer than others of their process; of two, both are.

    The profiler distorts some: it starts in one, and writes what it has collected in another. The
    steps of inference differ by the requests in them, so all of those are usual.
    """
    marks = step_events(timeline)
    usual = np.ones(len(marks), dtype=np.bool_)
    if not _profiler_marks(timeline).any():
        return usual
    of_mark = processes(timeline)[marks.thread]
    for process in distinct(of_mark).tolist():
        own = of_mark == process
        durations = marks.dur_ns[own].tolist()
        if len(durations) > 2:
            usual[own] = marks.dur_ns[own] <= SLOW_STEP * median_low(durations)
    return usual
