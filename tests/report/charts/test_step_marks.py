"""Marks of slow-downs and captures over the chart of steps."""

import msgspec
import pytest
from made_records import MS
from made_runs import slowing_run

from lightning_gpuprof.records.facts import Capture, CaptureReason, SlowDown, SlowDownShape
from lightning_gpuprof.report.charts.loaded_run import LoadedRun
from lightning_gpuprof.report.charts.query import Query
from lightning_gpuprof.report.charts.run_views import steps_view
from lightning_gpuprof.report.charts.step_marks import MOST_MARKS


def slow_down(since=100, shape=SlowDownShape.STEP, **changes):
    values = {"noticed_step": since + 50, "before_ns": 10 * MS, "during_ns": 14 * MS}
    return SlowDown(since_step=since, shape=shape, **values, **changes)


@pytest.fixture
def marks(make_session, write_run):
    """Write a run of 300 steps with records, and return its marks."""

    def read(*records, **options):
        session = make_session({"forward": 10 * MS}, steps=300, records=records, **options)
        return steps_view(LoadedRun(write_run(session)), Query({})).marks

    return read


def test_a_step_is_a_line_that_jumps_where_it_begins(marks):
    (mark,) = marks(slow_down(phase="callbacks")).slow_downs
    assert (mark.since_step, mark.until_step) == (100, None)
    assert mark.steps == (0, 100, 100, 299)
    assert mark.level_ns == (10 * MS, 10 * MS, 14 * MS, 14 * MS)
    assert mark.label == "slower from step 100 in callbacks: 14.0 ms instead of 10.0 ms"


def test_a_ramp_is_a_sloped_line_up_to_where_it_ends(marks):
    ramp = slow_down(shape=SlowDownShape.RAMP, until_step=249, per_100_steps_ns=2_000_000)
    (mark,) = marks(ramp).slow_downs
    assert (mark.steps, mark.level_ns) == ((0, 100, 249), (10 * MS, 10 * MS, 14 * MS))
    assert mark.label == "slower from step 100 to 249: 2.00 ms more every 100 steps"


def test_spikes_are_a_line_at_their_height(marks):
    spikes = slow_down(shape=SlowDownShape.SPIKES, every_steps=50, height_ns=100 * MS)
    (mark,) = marks(spikes).slow_downs
    assert (mark.steps, mark.level_ns) == ((100, 299), (110 * MS, 110 * MS))
    assert mark.label == "slower from step 100: every 50 steps, 100 ms"


def test_the_level_before_begins_where_an_earlier_slow_down_ends(marks):
    second = marks(slow_down(until_step=149), slow_down(200)).slow_downs[1]
    assert second.steps[0] == 150


def test_a_capture_has_the_steps_of_its_window_and_its_trace(tmp_path):
    run = LoadedRun(str(slowing_run(tmp_path / "run")))
    captured, asked = steps_view(run, Query({})).marks.captures
    assert (captured.first_step, captured.last_step, captured.by_request) == (860, 862, False)
    assert captured.label == "capture 0 because of a slow-down, steps 860 to 862"
    assert captured.trace_file == "rank0-cycle1.pt.trace.json.gz"
    assert (asked.first_step, asked.last_step, asked.by_request) == (1150, 1150, True)
    assert asked.trace_file == ""


def test_a_range_of_steps_has_the_same_marks(tmp_path):
    run = LoadedRun(str(slowing_run(tmp_path / "run")))
    whole, part = (steps_view(run, Query(query)) for query in ({}, {"first": "0", "last": "99"}))
    assert whole.marks == part.marks


def test_only_the_newest_of_many_are_marked(marks):
    many = [slow_down(step, until_step=step + 2) for step in range(0, 290, 5)]
    made = [Capture(number, CaptureReason.REQUEST, step=number) for number in range(40)]
    drawn = marks(*many, *made)
    assert len(many) > MOST_MARKS
    assert [mark.since_step for mark in drawn.slow_downs] == list(range(190, 290, 5))
    assert [mark.first_step for mark in drawn.captures] == list(range(20, 40))


def test_the_payload_is_as_small_for_many_steps_as_for_few(make_session, write_run):
    sizes = []
    for steps in (2_000, 20_000):
        session = make_session(
            {"forward": 10 * MS}, steps=steps, records=[slow_down()], window=1_000
        )
        run = LoadedRun(write_run(session, name=str(steps)))
        sizes.append(len(msgspec.json.encode(steps_view(run, Query({})))))
    assert sizes[1] < 1.5 * sizes[0]
