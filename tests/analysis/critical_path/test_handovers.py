"""The walk against a plain one, which decides at each moment anew."""

from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightning_gpuprof.analysis.critical_path.critical_path import critical_path
from lightning_gpuprof.analysis.trace import innermost
from lightning_gpuprof.analysis.trace.linked_trace import link
from lightning_gpuprof.traces.builder import TimelineBuilder

END = 40
EVENT = st.tuples(
    st.sampled_from(["work", "region"]), st.integers(0, END - 1), st.integers(1, 12)
).map(lambda event: (event[0], event[1], min(END, event[1] + event[2])))
THREADS = st.lists(st.lists(EVENT, max_size=6), min_size=1, max_size=4)


def doing(events, moment):
    """Return what a thread does at a moment: work lies inside of regions here."""
    kinds = {kind for kind, start, end in events if start <= moment < end}
    return next((kind for kind in ("work", "region") if kind in kinds), None)


def apart(events):
    """Leave out events that overlap another one without lying inside of it."""
    chosen = []
    for event in sorted(events, key=lambda event: (event[1], -event[2], event[0] != "work")):
        parents = [other for other in chosen if other[1] <= event[1] < other[2]]
        if all(event[2] <= other[2] and other[0] == "region" for other in parents):
            chosen.append(event)
    return chosen


def by_kind(state, wanted):
    return [lane for lane, kind in enumerate(state) if kind == wanted]


def plain_walk(threads, begin, end):
    """Return what the path is made of at each moment, from the end to the beginning."""
    states = [[doing(events, moment) for events in threads] for moment in range(end)]
    last = [
        max((m for m in range(end) if states[m][i] == "work"), default=-1)
        for i in range(len(threads))
    ]
    latest = max(last)
    current = max(i for i in range(len(threads)) if last[i] == latest) if latest >= 0 else 0
    path = []
    for moment in range(end - 1, begin - 1, -1):
        state = states[moment]
        working, open_ = by_kind(state, "work"), by_kind(state, "region")
        if state[current] != "work":
            if working:
                current = working[-1]
            elif state[current] is None and open_:
                current = open_[0]
        path.append((current, state[current]) if state[current] else None)
    return path


@pytest.mark.parametrize("piece", [2, 1 << 14])
@settings(max_examples=200, deadline=None)
@given(drawn=THREADS)
def test_the_path_goes_along_the_thread_that_works_and_else_along_an_open_region(piece, drawn):
    # An operator without a duration makes each thread take part.
    threads = [apart(events) for events in drawn if events]
    made = TimelineBuilder("made up")
    for number, events in enumerate(threads):
        thread = made.thread(1, number + 1)
        made.host(0, 0, "mark", "cpu_op", thread)
        for kind, start, end in events:
            category = "cpu_op" if kind == "work" else "user_annotation"
            made.host(start, end, f"{number} {kind}", category, thread)
    with patch.object(innermost, "_CHUNK", piece):
        path = critical_path(link(made.build()))
        rows = path.rows if path is not None else None
    if not threads:
        assert path is None
        return

    end = max(event[2] for events in threads for event in events)
    shown = []
    for name, dur in zip(rows.name, rows.dur_ns, strict=True):
        shown += [path.name(name)] * dur
    expected = plain_walk(threads, 0, end)
    assert (path.start_ns, path.end_ns) == (0, end)
    assert shown[::-1] == [
        "nothing recorded" if place is None else f"{place[0]} {place[1]}" for place in expected
    ]
