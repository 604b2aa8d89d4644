"""When samples are taken, and that none is where a collection may come amid the walk."""

import gc
import sys
from itertools import pairwise
from types import SimpleNamespace

import pytest

from lightning_gpuprof.recorders.sampling import pacing
from lightning_gpuprof.recorders.sampling.pacing import (
    DENSE_SAMPLES,
    EARLY_S,
    LONG_CORE_WAIT_NS,
    SHORT_INTERVAL_S,
    SPARSE_FACTOR,
    may_walk_frames,
    read_stack,
    sample_repeatedly,
    short_switch_interval,
)
from lightning_gpuprof.records.facts import CoreWait


class Waits:
    """A clock that stands still but while the sampler waits; `late` adds to a wait for a sample."""

    def __init__(self, late=lambda: 0.0):
        self.now_s, self.late, self.quick = 0.0, late, []

    def wait(self, timeout):
        assert sys.getswitchinterval() > 1e-3
        self.now_s += timeout

    def sleep(self, seconds):
        self.quick.append((sys.getswitchinterval(), seconds))
        self.now_s += seconds + self.late()

    def clock(self):
        return round(self.now_s * 1e9)


def taken(most, waits, **options):
    """Return when samples were taken, and what was noted of each."""
    times, notes = [], []

    def look():
        times.append(waits.now_s)
        return "here"

    sample_repeatedly(
        look,
        lambda seen, when: notes.append(when),
        lambda: len(notes),
        waits,
        max_samples=most,
        clock=waits.clock,
        sleep=waits.sleep,
        **{"interval_s": 1.0, **options},
    )
    return times, notes


def test_the_first_samples_are_close_together_and_there_are_only_so_many():
    times, notes = taken(DENSE_SAMPLES + 50, waits := Waits())
    assert len(notes) == DENSE_SAMPLES + 50
    apart = [after - before for before, after in pairwise([0.0, *times])]
    assert all(0.5 <= one < 1.5 for one in apart[:DENSE_SAMPLES])
    assert len(set(apart)) == len(apart)
    assert sum(apart[:DENSE_SAMPLES]) == pytest.approx(DENSE_SAMPLES, rel=0.1)
    assert sum(apart[DENSE_SAMPLES:]) == pytest.approx(50 * SPARSE_FACTOR, rel=0.15)
    # Turns are quick for the last milliseconds alone.
    assert all(one == pytest.approx((SHORT_INTERVAL_S, EARLY_S)) for one in waits.quick)


def test_times_are_set_ahead_of_how_late_a_sample_comes():
    punctual, _ = taken(20, Waits())
    late, notes = taken(20, Waits(lambda: 0.3))
    assert late == pytest.approx([one + 0.3 for one in punctual])
    assert {(round(when.late_ns, -6), when.weight) for when in notes} == {(300_000_000, 1)}


def test_all_times_that_pass_before_its_turn_are_of_one_sample():
    delays = iter([0.0, 2.6, *[0.0] * 20])
    times, notes = taken(6, Waits(lambda: next(delays)))
    assert [when.weight for when in notes] == [1, 3, 1, 1, 1, 1]
    assert 0 < times[2] - times[1] < 1.5


@pytest.mark.parametrize("more", [0, 1])
def test_a_wait_for_a_core_is_noted(monkeypatch, more):
    readings = iter([CoreWait(0, 0), CoreWait(9, LONG_CORE_WAIT_NS + more)])
    monkeypatch.setattr(pacing, "core_wait", lambda: next(readings))
    _, (when,) = taken(1, Waits())
    assert when.waited_for_core == bool(more)


def test_turns_are_quick_for_a_sample_alone_also_where_it_fails():
    usual, inside = sys.getswitchinterval(), []

    def fails():
        with short_switch_interval():
            inside.append(sys.getswitchinterval())
            raise ValueError("planted")

    with pytest.raises(ValueError, match="planted"):
        fails()
    assert inside == [pytest.approx(SHORT_INTERVAL_S)]
    assert sys.getswitchinterval() == usual


@pytest.fixture
def collector(monkeypatch):
    """The garbage collector, as Python 3.11's."""
    monkeypatch.setattr(pacing, "_COLLECTS_DURING_WALK", True)
    usual = gc.isenabled(), gc.get_threshold()
    yield gc
    gc.set_threshold(*usual[1])
    (gc.enable if usual[0] else gc.disable)()


def walk(depth=250):
    """Make the objects of many frames, as a walk over a deep stack does."""
    if depth:
        return walk(depth - 1)
    frame = sys._getframe()
    while frame is not None:
        frame = frame.f_back
    return None


def test_no_collection_begins_in_a_walk(collector):
    begun, kept = [], []
    gc.set_threshold(700, 1000, 1000)
    gc.callbacks.append(note := lambda phase, info: begun.append(phase))
    try:
        kept.extend([] for _ in range(600 - gc.get_count()[0]))
        assert may_walk_frames()
        begun.clear()
        walk()
        assert not begun
    finally:
        gc.callbacks.remove(note)


def test_settings_of_the_collector_stay_and_one_that_always_is_near_allows_no_walk(collector):
    collector.set_threshold(100, 5, 5)
    assert not may_walk_frames()
    collector.disable()
    assert may_walk_frames()
    assert (gc.isenabled(), gc.get_threshold()) == (False, (100, 5, 5))


@pytest.mark.parametrize(("later", "told"), [(4, "here"), (6, None)])
def test_a_thread_that_goes_on_amid_the_walk_is_not_told_of(monkeypatch, later, told):
    frame = SimpleNamespace(f_lasti=4)
    monkeypatch.setattr(sys, "_current_frames", lambda: {7: frame})

    def where(frame):
        frame.f_lasti = later
        return "here"

    assert read_stack(7, where) == told


def test_intervals_grow_with_the_time_since_the_call_where_that_is_asked_for():
    times, notes = taken(60, Waits(), growth=0.5)
    assert len(notes) == 60
    # At most one and a half times the mean interval, which is half of the time so far.
    apart = [after - before for before, after in pairwise([0.0, *times])]
    ratios = [gap / before for gap, before in zip(apart[10:], times[9:], strict=False)]
    assert all(0.24 < ratio < 0.76 for ratio in ratios)
