"""How late samples come, and that none is taken where a collection may come amid the walk."""

import gc
import sys
from types import SimpleNamespace

import pytest

from lightning_gpuprof.recorders.sampling import pacing
from lightning_gpuprof.recorders.sampling.pacing import keep_sampling, may_walk


@pytest.mark.parametrize(
    ("behind_ms", "late"),
    [
        (0.2, False),
        (2.0, True),
        (5.5, False),  # Python took the lock away, wherever the other thread was
    ],
)
def test_a_sample_is_late_where_the_other_thread_let_go_of_the_lock(behind_ms, late):
    now, taken = SimpleNamespace(ns=0), []

    def wait(timeout):
        now.ns += int(timeout * 1e9 + behind_ms * 1e6)

    stop = SimpleNamespace(wait=wait)
    done = keep_sampling(
        taken.append, lambda: len(taken), stop, interval_s=1.0, most=3, clock=lambda: now.ns
    )
    assert done
    assert taken == [late] * 3


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
