"""When samples are taken, and that none is where a collection may come amid the walk."""

import gc
import sys
from types import SimpleNamespace

import pytest

from lightning_gpuprof.recorders.sampling import pacing
from lightning_gpuprof.recorders.sampling.pacing import (
    QUICK_S,
    SETTLE_S,
    keep_sampling,
    may_walk,
    quick_turns,
)


def test_it_samples_until_it_has_enough_or_is_stopped():
    waited, taken = [], []
    options = {"interval_s": 1.0, "most": 3}

    def sample():
        taken.append(1)

    going = SimpleNamespace(wait=waited.append)
    assert keep_sampling(sample, lambda: len(taken), going, **options)
    assert len(taken) == 3
    assert all(0.5 <= one < 1.5 for one in waited[::2])
    assert all(0 <= one < SETTLE_S for one in waited[1::2])
    stopped = SimpleNamespace(wait=lambda timeout: True)
    assert not keep_sampling(sample, lambda: 0, stopped, **options)
    assert len(taken) == 3


def test_turns_are_quick_for_a_sample_alone_also_where_it_fails():
    usual, inside = sys.getswitchinterval(), []

    def fails():
        with quick_turns():
            inside.append(sys.getswitchinterval())
            raise ValueError("planted")

    with pytest.raises(ValueError, match="planted"):
        fails()
    assert inside == [pytest.approx(QUICK_S)]
    assert sys.getswitchinterval() == usual


@pytest.fixture
def collector(monkeypatch):
    """The garbage collector, as Python 3.11's."""
    monkeypatch.setattr(pacing, "_COLLECTS_IN_A_WALK", True)
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
        assert may_walk()
        begun.clear()
        walk()
        assert not begun
    finally:
        gc.callbacks.remove(note)


def test_settings_of_the_collector_stay_and_one_that_always_is_near_allows_no_walk(collector):
    collector.set_threshold(100, 5, 5)
    assert not may_walk()
    collector.disable()
    assert may_walk()
    assert (gc.isenabled(), gc.get_threshold()) == (False, (100, 5, 5))
