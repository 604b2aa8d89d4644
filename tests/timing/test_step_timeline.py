import pytest

from lightning_gpuprof.records.schema import StepFlag
from lightning_gpuprof.timing.phase_clock import PhaseClock
from lightning_gpuprof.timing.step_timeline import StepTimeline


class Loop:
    """Drives a timeline as a training loop would; the clock moves 1 ns per event."""

    def __init__(self, **options):
        self.now_ns = 0
        self.timeline = StepTimeline(PhaseClock(self), **options)
        self.timeline.start()

    def __call__(self):
        return self.now_ns

    def fetch(self):
        self.now_ns += 1
        self.timeline.begin_step()

    def batch(self, inside=()):
        for event in inside:
            event()
        self.now_ns += 10
        self.timeline.begin_batch(0, 4)
        self.timeline.begun, self.timeline.ran = False, True

    def facts(self):
        facts, _ = self.timeline.take_rows()
        names = StepTimeline.FACTS
        return [dict(zip(names, row, strict=True)) for row in facts.tolist()]


@pytest.fixture
def loop():
    return Loop()


def test_a_step_runs_from_its_fetch_to_the_next(loop):
    loop.timeline.begin_epoch()
    for _ in range(3):
        loop.fetch()
        loop.batch()
    loop.timeline.end_epoch()

    assert [(row["start_ns"], row["end_ns"]) for row in loop.facts()] == [
        (1, 12),
        (12, 23),
        (23, 33),
    ]


def test_fetches_before_the_first_batch_belong_to_the_first_step(loop):
    loop.timeline.begin_epoch()
    loop.fetch()
    loop.fetch()
    loop.batch()
    loop.timeline.end_epoch()

    assert [(row["start_ns"], row["end_ns"]) for row in loop.facts()] == [(1, 12)]


def test_a_fetch_from_inside_a_batch_is_no_border(loop):
    loop.timeline.begin_epoch()
    loop.fetch()
    loop.batch(inside=[loop.fetch, loop.fetch])
    loop.timeline.end_epoch()

    assert len(loop.facts()) == 1


def test_a_fetch_that_found_nothing_is_outside_steps(loop):
    loop.timeline.begin_epoch()
    loop.fetch()
    loop.batch()
    loop.fetch()
    loop.now_ns += 5
    loop.timeline.end_epoch()
    loop.timeline.stop(unfinished=False)

    assert len(loop.facts()) == 1
    assert [(o.where, o.cut.end_ns - o.cut.start_ns) for o in loop.timeline.outside] == [
        ("setup", 0),
        ("epoch_start", 1),
        ("epoch_end", 5),
    ]


def test_flags_set_outside_steps_are_no_steps_flags(loop):
    loop.timeline.flags |= StepFlag.VALIDATION
    loop.timeline.begin_epoch()
    loop.fetch()
    loop.batch()
    loop.timeline.end_epoch()

    assert [row["flags"] for row in loop.facts()] == [StepFlag.EPOCH_START]


def test_a_batch_that_began_but_had_nothing_to_run_is_no_step(loop):
    loop.timeline.begin_epoch()
    loop.fetch()
    loop.batch()
    loop.fetch()
    loop.timeline.begin_batch(1, 4)
    loop.timeline.end_epoch()

    assert [(row["batch_idx"], row["samples"]) for row in loop.facts()] == [(0, 4)]


def test_a_batch_that_was_torn_is_outside_steps(loop):
    loop.timeline.begin_epoch()
    loop.fetch()
    loop.batch()
    loop.fetch()
    loop.timeline.begin_batch(1, 4)
    assert loop.timeline.step == 1
    loop.timeline.end_epoch(unfinished=True)

    rows = [(row["batch_idx"], row["samples"], row["flags"]) for row in loop.facts()]
    assert rows == [(0, 4, StepFlag.EPOCH_START)]


def test_what_is_seen_as_a_batch_begins_can_be_flagged_where_it_happened(loop):
    assert loop.timeline.flag_last_batch(StepFlag.COMPILED) is None
    loop.timeline.begin_epoch()
    loop.fetch()
    loop.batch()
    assert loop.timeline.flag_last_batch(StepFlag.LOGGED) == 0
    loop.fetch()
    assert loop.timeline.flag_last_batch(StepFlag.COMPILED) == 0
    loop.batch()
    loop.timeline.end_epoch()

    seen = StepFlag.EPOCH_START | StepFlag.LOGGED | StepFlag.COMPILED
    assert [row["flags"] for row in loop.facts()] == [seen, 0]
