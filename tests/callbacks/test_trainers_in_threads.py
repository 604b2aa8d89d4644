"""Fits in several threads of one process, as Optuna's `n_jobs` runs them."""

import gc
import sys
import threading

import pytest
import torch
from lightning.pytorch import Callback
from profiled_runs import Run, fit

from lightning_gpuprof.callbacks.phase_timer import PhaseTimer
from lightning_gpuprof.callbacks.profiler_schedule import ProfilerSchedule
from lightning_gpuprof.recorders.garbage_collection import GarbageCollections
from lightning_gpuprof.recorders.sampling.pacing import SHORT_INTERVAL_S, short_switch_interval
from lightning_gpuprof.runtime import fits
from lightning_gpuprof.timing.components import activate, active_component

WAIT_S = 60
"""Only a test that fails waits this long."""


class At(Callback):
    """Calls a function when a batch begins."""

    def __init__(self, batch, act):
        self.batch, self.act = batch, act

    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
        if batch_idx == self.batch:
            self.act()


def schedule():
    return ProfilerSchedule(wait=2, warmup=1, active=4, repeat=0)


def in_thread(act):
    thread = threading.Thread(target=act)
    thread.start()
    return thread


def wait(event):
    assert event.wait(WAIT_S)


def test_no_window_is_recorded_while_another_thread_trains(tmp_path):
    begun, ended, trainers = threading.Event(), threading.Event(), []

    def other():
        hold = At(0, lambda: (begun.set(), wait(ended)))
        trainers.append(fit(tmp_path / "other", PhaseTimer(console=False), schedule(), hold))

    thread = in_thread(other)
    wait(begun)
    run = Run(fit(tmp_path / "own", PhaseTimer(console=False), schedule()))
    ended.set()
    thread.join(WAIT_S)

    assert run.cycles == []
    assert run.disabled == []
    assert run.notes["profiler-busy"].message.startswith("Another thread of this process trains")
    assert [(c.first_step, c.last_step) for c in Run(trainers[0]).cycles] == [(3, 6)]


def test_a_window_ends_before_the_next_step_if_another_thread_begins_to_train(tmp_path):
    begun, ended, threads = threading.Event(), threading.Event(), []

    def other():
        fit(tmp_path / "other", schedule(), At(0, lambda: (begun.set(), wait(ended))))

    def begin():
        threads.append(in_thread(other))
        wait(begun)

    run = Run(fit(tmp_path / "own", schedule(), At(4, begin)))
    ended.set()
    threads[0].join(WAIT_S)

    assert [(c.first_step, c.last_step) for c in run.cycles] == [(3, 4)]
    assert run.notes["profiler-busy"].message.startswith("Another thread of this process trains")
    assert fits.claim_profiler(run)
    fits.release_profiler(run)


def test_a_profiler_of_the_program_in_another_thread_waits_until_the_window_has_ended(tmp_path):
    threads, order = [], []

    def profile():
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
            order.append("recorded")
            torch.ones(2).sum()
        assert any(event.key == "aten::sum" for event in profiler.key_averages())

    callback = schedule()

    def begin():
        threads.append(in_thread(profile))
        while not callback._wanted:  # the other thread's call has reached this callback
            threads[0].join(0.001)

    run = Run(fit(tmp_path, callback, At(4, begin), At(11, lambda: threads[0].join(WAIT_S))))

    assert order == ["recorded"]
    assert not threads[0].is_alive()
    assert [(c.first_step, c.last_step) for c in run.cycles] == [(3, 4)]
    assert "Another torch profiler" in run.notes["profiler-busy"].message


def test_the_profiler_is_free_again_after_a_fit_that_raises_in_its_window(tmp_path):
    def fail():
        raise ValueError("trial")

    with pytest.raises(ValueError, match="trial"):
        fit(tmp_path / "first", schedule(), At(4, fail))

    assert len(Run(fit(tmp_path / "second", schedule())).cycles) == 1


def test_overlapping_samplers_restore_the_switch_interval_of_the_program():
    before = sys.getswitchinterval()
    first, second = short_switch_interval(), short_switch_interval()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert sys.getswitchinterval() == pytest.approx(SHORT_INTERVAL_S)
    second.__exit__(None, None, None)
    assert sys.getswitchinterval() == before


def test_a_full_collection_in_another_thread_changes_no_clock_while_two_threads_train():
    entered = []

    class Region:
        def __enter__(self):
            entered.append(threading.get_ident())

        def __exit__(self, *raised):
            entered.append(None)

    class Session:
        """Can be referred to weakly."""

    recorder, own, other = GarbageCollections(), Session(), Session()
    recorder._region = Region()
    recorder.on_train_start(None, None)
    release = threading.Event()
    begun = threading.Event()
    thread = in_thread(lambda: (fits.begin(other), begun.set(), wait(release), gc.collect()))
    fits.begin(own)
    wait(begun)
    release.set()
    thread.join(WAIT_S)
    assert entered == []
    gc.collect()
    recorder.release()
    fits.end(own)
    fits.end(other)

    assert entered == [threading.get_ident(), None]


def test_regions_are_those_of_their_own_thread():
    begun, ended = threading.Event(), threading.Event()
    remove = activate(lambda name: f"own {name}")

    def other():
        remove_other = activate(lambda name: f"other {name}")
        begun.set()
        wait(ended)
        remove_other()

    thread = in_thread(other)
    wait(begun)
    try:
        assert active_component("dream") == "own dream"
    finally:
        remove()
        ended.set()
        thread.join(WAIT_S)
