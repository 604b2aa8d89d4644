import gc
import json
import sys
import threading
import weakref
from types import SimpleNamespace

import pytest
from lightning.pytorch.demos.boring_classes import BoringModel

from lightning_gpuprof import GpuProfCallback
from lightning_gpuprof.callbacks import line_sampler
from lightning_gpuprof.callbacks.line_sampler import LineSampler
from lightning_gpuprof.recorders.sampling.pacing import SampleTiming
from lightning_gpuprof.recorders.sampling.stack_lines import ThreadPlace
from lightning_gpuprof.recorders.sampling.thread_samples import ThreadSample
from lightning_gpuprof.records.lines import HostLines, OutsideLines
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.runtime.guard import is_disabled


class Writes:
    """Takes a sample whenever it is written to, from wherever that is."""

    def __init__(self, sampler):
        self.sampler = sampler

    def write(self, text):
        sample = self.sampler.take_sample()
        if sample is not None:
            self.sampler.add_sample(sample, SampleTiming())


class Dumps(BoringModel):
    def __init__(self, sampler):
        super().__init__()
        self.sink = Writes(sampler)

    def training_step(self, batch, batch_idx):
        if batch_idx >= 2:
            json.dump([1], self.sink)
        return super().training_step(batch, batch_idx)

    def configure_gradient_clipping(self, optimizer, *args, **kwargs):
        self.sink.write("")

    def on_train_batch_end(self, outputs, batch, batch_idx):
        self.sink.write("")


@pytest.fixture
def fit(session_of):
    def fitted(callback, model, **options):
        session = session_of(model, callback, **{"limit_train_batches": 8, **options})
        return session.last(HostLines)

    return fitted


@pytest.fixture
def idle():
    """A sampler whose thread never comes to take a sample of its own."""
    return LineSampler(interval_s=1e6, warmup=0)


def test_samples_are_told_apart_by_line_phase_and_what_the_line_called(fit, idle):
    lines = fit(idle, Dumps(idle))
    seen = {(one.phase, one.function): one for one in lines.lines if one.function != "write"}
    assert lines.whole == sum(lines.by_phase.values())
    # The sink is the user's own, and innermost: its line is the one that is named.
    assert {one.function for one in lines.lines} == {"write"}, seen
    assert {one.phase for one in lines.lines} == {"forward", "clip_gradients", "other"}
    assert all(one.source == "sample = self.sampler.take_sample()" for one in lines.lines)


class LooksBetween(Dumps):
    def on_train_epoch_end(self):
        self.sink.write("")


def test_samples_between_epochs_are_a_record_of_their_own(session_of, idle):
    options = {"limit_train_batches": 3, "max_epochs": 2}
    session = session_of(LooksBetween(idle), idle, **options)
    between = session.last(OutsideLines)
    assert between.whole == 2
    assert between.by_phase == {"other": 2}
    assert [(line.part, line.count) for line in between.lines] == [("on_train_epoch_end", 2)]
    in_steps = session.last(HostLines)
    assert in_steps.whole == sum(in_steps.by_phase.values()) > 2
    assert {line.part for line in in_steps.lines} == {None}


def test_with_enough_samples_of_steps_it_looks_only_between_epochs(idle, monkeypatch):
    looks = []
    monkeypatch.setattr(line_sampler, "place_in_loop", lambda frame: looks.append(frame))
    idle._watched = threading.get_ident()
    for in_step, seen in ((True, 0), (False, 1)):
        idle._context = SimpleNamespace(step=9, fit_has_ended=False, in_step=in_step)
        assert idle.take_sample_outside() is None
        assert len(looks) == seen


def test_steps_of_the_warm_up_are_left_out(fit):
    callback = GpuProfCallback(console=False, trace=False, report=False, warmup_steps=6)
    sampler = next(part for part in callback.parts if isinstance(part, LineSampler))
    sampler.interval_s = 1e6
    lines = fit(callback, Dumps(sampler))
    assert lines.by_phase["clip_gradients"] == 2


def test_nothing_is_noted_where_no_sample_was_taken(fit):
    assert fit(LineSampler(interval_s=1e6), BoringModel()) is None


def test_it_does_not_look_where_threads_run_at_once(fit, monkeypatch):
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: False, raising=False)
    assert fit(LineSampler(interval_s=1e-4, warmup=0), BoringModel()) is None


def test_a_sample_keeps_nothing_alive_that_the_training_thread_lets_go_of(idle):
    class Batch:
        pass

    def step():
        batch = Batch()
        sample = threading.Thread(target=idle.take_sample)
        sample.start()
        sample.join()
        return weakref.ref(batch)

    idle._context, idle._watched = (
        SimpleNamespace(step=1, fit_has_ended=False),
        threading.get_ident(),
    )
    gc.disable()
    try:
        left = step()
        assert left() is None
    finally:
        gc.enable()


class Again(BoringModel):
    """Samples again from batch 3 to batch 5, or to the end."""

    def __init__(self, sampler, until=5):
        super().__init__()
        self.sampler, self.until, self.taken = sampler, until, None

    def training_step(self, batch, batch_idx):
        if batch_idx == 3:
            assert self.sampler.cannot_sample() is None
            self.sampler.sample_again(7, 20.0)
        if batch_idx == self.until:
            self.taken = self.sampler.take_again()
        return super().training_step(batch, batch_idx)

    def on_train_start(self):
        self.sampler.add_sample(made_sample(line=1, step=0), SampleTiming())


def made_sample(line, step):
    place = ThreadPlace(Phase.FORWARD, "t.py", line, "f", None, None)
    return ThreadSample(place, None, step)


@pytest.mark.parametrize("until", [5, None])
def test_samples_that_are_taken_again_are_counted_apart(fit, idle, monkeypatch, until):
    asked = []

    def take_all(take, add, count, stop, *, max_samples, **_):
        asked.append(max_samples)
        if add != idle.add_sample:
            for step in (3, 4, 4):
                add(made_sample(line=2, step=step), SampleTiming())
        stop.wait()

    monkeypatch.setattr(line_sampler, "sample_repeatedly", take_all)
    model = Again(idle, until)
    first = fit(idle, model)
    captured = model.taken if until else idle.take_again()
    assert (captured.capture, captured.workers) == (7, None)
    assert [(line.line, line.count) for line in captured.host.lines] == [(2, 3)]
    assert (captured.host.first_step, captured.host.last_step) == (3, 4)
    assert [(line.line, line.count) for line in first.lines] == [(1, 1)]
    assert idle.take_again() is None
    assert not idle.samples_again
    assert 300 in asked  # at most so many in twenty seconds
    assert not [thread for thread in threading.enumerate() if thread.name == line_sampler.THREAD]


def test_it_cannot_sample_again_before_and_after_training(fit, idle):
    assert "has not begun" in idle.cannot_sample()
    fit(idle, BoringModel())
    assert "has ended" in idle.cannot_sample()


def test_a_sample_that_fails_ends_the_thread_and_switches_the_sampler_off(monkeypatch, said):
    looks, records = [], []

    def fails(frame):
        looks.append(frame)
        raise ValueError("planted")

    monkeypatch.setattr(line_sampler, "place_in_loop", fails)
    sampler = LineSampler(warmup=0)
    sampler._context = SimpleNamespace(step=3, fit_has_ended=False, write=records.append)
    with said("LineSampler failed and is off"):
        sampler._watch(SimpleNamespace(wait=lambda timeout: False))

    assert len(looks) == 1
    assert is_disabled(sampler)
    assert sampler._stop.is_set()
    assert [record.probe for record in records] == ["LineSampler"]
