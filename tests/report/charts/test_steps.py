"""The steps of a session in buckets: which step is which."""

import pytest

from lightning_gpuprof.report.charts.loaded_run import LoadedRun
from lightning_gpuprof.report.charts.query import Query
from lightning_gpuprof.report.charts.run_views import run_view, steps_view

MS = 1_000_000


@pytest.fixture
def sparse(make_session, write_run):
    """A run of which one step in five was timed by phase."""
    forward = [MS] * 19 + [9 * MS]
    columns = {"step": list(range(0, 100, 5))}
    return LoadedRun(write_run(make_session({"forward": forward}, steps=20, columns=columns)))


def test_steps_go_by_their_own_numbers_where_few_were_timed(sparse):
    steps = steps_view(sparse, Query({"buckets": "4"}))
    assert steps.steps == 20
    assert (steps.first, steps.last) == ([0, 25, 50, 75], [20, 45, 70, 95])
    assert steps.count == [5, 5, 5, 5]
    assert steps.slowest[-1] == 95


def test_a_range_is_given_by_their_numbers_too(sparse):
    steps = steps_view(sparse, Query({"first": "90", "last": "1000"}))
    assert steps.first == steps.last == [90, 95]
    assert steps.max_ns == [MS, 9 * MS]


def test_the_header_knows_how_far_the_run_is_where_few_steps_were_timed(sparse):
    header = run_view(sparse, Query({}))
    assert (header.steps, header.last_step) == (20, 95)
