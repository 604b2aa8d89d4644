"""Nodes of the autograd graph that no arrow from an operator reaches ran before."""

import pytest

from lightning_gpuprof.analysis.trace.linked_trace import link
from lightning_gpuprof.analysis.trace.operators import operator_table
from lightning_gpuprof.traces import open_timeline

ENGINE = "autograd::engine::evaluate_function: "


def arrow(number, start, end):
    shared = {"cat": "fwdbwd", "name": "fwdbwd", "id": number, "pid": 1, "tid": 1}
    return [{**shared, "ph": "s", "ts": start}, {**shared, "ph": "f", "ts": end, "bp": "e"}]


@pytest.fixture
def table(write_trace, op):
    """Return the operators of one forward operator and passes of its node, 10 us apart."""

    def make(durations, *, arrows):
        events = [op("aten::addmm", 0, 5)]
        for number, dur in enumerate(durations, start=1):
            at = 10 * number
            events.append(op(f"{ENGINE}AddmmBackward0", at, dur))
            events.append(op("AddmmBackward0", at + 1, dur - 2))
            events.append(op(f"{ENGINE}torch::autograd::AccumulateGrad", at + 9, 1))
        trace = link(open_timeline(write_trace(events + arrows, name="t.pt.trace.json")))
        return {row.name: row for row in operator_table(trace)}

    return make


def test_passes_after_the_one_that_an_arrow_reaches_are_repeated(table):
    rows = table([8, 6, 4], arrows=arrow(1, 0, 11))
    node = rows[f"{ENGINE}AddmmBackward0"]
    assert (node.count, node.repeated_count, node.repeated_ns) == (3, 2, 10_000)
    assert rows[f"{ENGINE}torch::autograd::AccumulateGrad"].repeated_count == 0


def test_a_trace_without_arrows_does_not_say(table):
    node = table([8, 6, 4], arrows=[])[f"{ENGINE}AddmmBackward0"]
    assert (node.repeated_count, node.repeated_ns) == (0, 0)
