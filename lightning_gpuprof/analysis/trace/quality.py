"""Counts the faults of a trace, which are shown first because every figure depends on them."""

from typing import Any

import numpy as np

from lightning_gpuprof.analysis.trace.grouping import matching
from lightning_gpuprof.analysis.trace.host_calls import call_kind
from lightning_gpuprof.analysis.trace.linked_trace import Launches
from lightning_gpuprof.analysis.trace.step_marks import step_events
from lightning_gpuprof.analysis.trace_tables import TraceQuality
from lightning_gpuprof.traces.timeline import CATEGORY_ID, Timeline, of_category

MANY_FRAC = 0.1
"""If so many launches lack their kernel, idle time cannot be told from work that was lost."""
_SLOW_START_NS = 1_000_000
"""An idle device never takes this long to start what was launched."""


def trace_quality(timeline: Timeline, launches: Launches) -> TraceQuality:
    """Count what is lost, cut or impossible."""
    host, device, left_out = timeline.host, timeline.device, timeline.left_out_count
    calls = np.flatnonzero(of_category(host, "cuda_runtime", "cuda_driver"))
    kinds = ("kernel", "graph")
    rows = calls[matching(timeline, host.name[calls], lambda name: call_kind(name) in kinds)]
    has_work = np.zeros(len(host), dtype=np.bool_)
    has_work[launches.calls] = True
    joined = launches.call >= 0
    late = device.start_ns[joined] - host.start_ns[launches.call[joined]]
    lost = max(0, int((~has_work[rows]).sum()) - left_out)
    counts = {
        "launch_count": len(rows),
        "lost_kernels": lost,
        "orphan_kernels": int((~joined).sum()) if len(calls) else 0,
        "kernels_before_launch": int((late < 0).sum()),
        "device_events": len(device) + left_out,
        "impossible_durations": timeline.cut_count,
        "impossible_starts": left_out,
        "behind_all_steps": _behind_all_steps(timeline, launches),
    }
    kernels = bool((device.category == CATEGORY_ID["kernel"]).all())
    what = "kernels" if kernels else "device events"
    many = lost >= MANY_FRAC * max(1, len(rows))
    worded = counts | {"lost_kernels": 0 if many else lost, "many_lost": lost if many else 0}
    return TraceQuality(
        **counts,
        doubts=_sentences(_DOUBTS, worded, what=what),
        notes=_sentences(_NOTES, worded, events=len(device)),
    )


_DOUBTS = {
    "many_lost": "{many_lost} of {launch_count} kernel launches have no kernel in the trace: a "
    "device that seems idle may have run them.",
    "impossible_durations": "{impossible_durations} of {device_events} {what} have impossible "
    "durations, beyond the start of later ones on their stream; they are cut there.",
    "impossible_starts": "{impossible_starts} of {device_events} {what} have impossible times: "
    "none at all, or out of the order of their launches; they are left out.",
    "behind_all_steps": "All {behind_all_steps} {what} of the marked steps are stamped behind the "
    "last step, on a device with nothing else to do: when they ran, and in which step, is not "
    "known.",
}
_NOTES = {
    "lost_kernels": "{lost_kernels} of {launch_count} kernel launches have no kernel in the trace: "
    "device time is too low by what they ran.",
    "orphan_kernels": "{orphan_kernels} of {events} device events have no launching call in the "
    "trace: they were launched before it began, or the calls were lost.",
    "kernels_before_launch": "{kernels_before_launch} device events start before their launching "
    "call: host and device clocks disagree, and launch delays are off by as much.",
}


def _sentences(texts: dict[str, str], counts: dict[str, int], **more: Any) -> tuple[str, ...]:
    """Return the sentences about the faults whose count is not 0."""
    return tuple(text.format(**counts, **more) for key, text in texts.items() if counts[key])


def _behind_all_steps(timeline: Timeline, launches: Launches) -> int:
    """Count the events that marked steps launched, where all of them ran behind the last step.

    A device that is several steps behind works on earlier steps meanwhile. Here it had nothing to
    do from the first launch on.
    """
    marks, device = step_events(timeline), timeline.device
    joined = np.flatnonzero(launches.call >= 0)
    called = timeline.host.start_ns[launches.call[joined]]
    inside = np.zeros(len(joined), dtype=np.bool_)
    if len(marks) > 1:
        inside = (called >= marks.start_ns.min()) & (called < marks.end_ns.max())
    own, called = joined[inside], called[inside]
    if not len(own):
        return 0
    start_ns = device.start_ns[own].min()
    if start_ns < max(marks.end_ns.max(), called.min() + _SLOW_START_NS):
        return 0
    between = (device.end_ns > called.min()) & (device.start_ns < start_ns)
    return 0 if between.any() else len(own)
