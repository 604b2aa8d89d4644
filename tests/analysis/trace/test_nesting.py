from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightning_gpuprof.analysis.trace import linked_trace
from lightning_gpuprof.analysis.trace.linked_trace import nest
from lightning_gpuprof.traces.timeline import HostEvents, make_table

events = st.lists(
    st.tuples(st.integers(0, 60), st.integers(0, 30), st.integers(0, 2)), min_size=1, max_size=40
)


def by_the_definition(host):
    """Each event's parent is the innermost one still open when it begins."""
    parents, ends = [], host.end_ns.tolist()
    for row in range(len(host)):
        begun = host.start_ns[row]
        still_open = [
            before
            for before in range(row)
            if host.thread[before] == host.thread[row] and ends[before] > begun
        ]
        parent = still_open[-1] if still_open else -1
        parents.append(parent)
        if parent >= 0:
            ends[row] = min(ends[row], ends[parent])
    return parents, ends


@pytest.mark.parametrize("few", [1, 1 << 14])
@settings(max_examples=200, deadline=None)
@given(rows=events)
def test_an_events_parent_is_the_innermost_one_still_open(few, rows):
    start, dur, thread = zip(*rows, strict=True)
    host = make_table(HostEvents, start_ns=start, dur_ns=dur, thread=thread)

    with patch.object(linked_trace, "_FEW", few):
        nesting = nest(host)

    parents, ends = by_the_definition(host)
    assert nesting.parent.tolist() == parents
    assert nesting.end_ns.tolist() == ends
    for row, parent in enumerate(parents):
        assert nesting.depth[row] == (nesting.depth[parent] + 1 if parent >= 0 else 0)
