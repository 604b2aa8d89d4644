"""Which of a run's traces the rules read."""

from types import SimpleNamespace

import pytest
from analyzed import made_analysis

from lightning_gpuprof.analysis.run.run_results import TraceView
from lightning_gpuprof.analysis.run.trace_facts import last_analysed
from lightning_gpuprof.records.schema import ProfilerCycle


@pytest.fixture
def chosen():
    """Return the number of the cycle that is read, of (cycle, capture, analysed) each."""

    def choose(*cycles):
        traces = [
            TraceView(
                0,
                ProfilerCycle(cycle=n, first_step=n, last_step=n, trace_file="t", capture=capture),
                made_analysis(steps=[{}]) if analysed else None,
            )
            for n, capture, analysed in cycles
        ]
        run = SimpleNamespace(traces=tuple(traces), start=SimpleNamespace(rank=0))
        trace = last_analysed(run)
        return None if trace is None else trace.cycle.cycle

    return choose


def test_the_last_window_of_the_schedule_is_read_and_not_that_of_a_capture(chosen):
    assert chosen((0, None, True), (1, None, True), (2, 0, True)) == 1


def test_a_captures_window_is_read_where_the_schedule_has_none(chosen):
    assert chosen((0, None, False), (1, 0, True), (2, 1, True)) == 2
    assert chosen((0, None, False)) is None
