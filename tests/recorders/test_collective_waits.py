import threading
from types import SimpleNamespace

import pytest
from lightning.pytorch import Callback
from timed_parts import Part

from lightning_gpuprof.recorders import collective_waits
from lightning_gpuprof.recorders.collective_waits import CollectiveWaits
from lightning_gpuprof.runtime.guard import is_disabled
from lightning_gpuprof.runtime.hooks import dispatcher_of


class Work:
    """Stands for the class of torch in whose method a rank waits."""

    inner = None

    def wait(self, seconds=0):
        if self.inner is not None:
            self.inner.wait()
        return seconds


@pytest.fixture
def watch(monkeypatch):
    """Begin to time `Work.wait` in a part; returns the recorder."""
    monkeypatch.setattr(
        collective_waits, "waiting_functions", lambda module, on_device: [(Work, "wait")]
    )

    def begin(part, world_size=2):
        recorder = CollectiveWaits()
        recorder.setup(
            SimpleNamespace(step=0, write=lambda record: None),
            SimpleNamespace(part=lambda name: part, running=True),
        )
        trainer = SimpleNamespace(
            world_size=world_size,
            lightning_module=None,
            strategy=SimpleNamespace(root_device=SimpleNamespace(type="cpu")),
        )
        recorder.on_train_start(trainer, dispatcher_of(Callback()))
        return recorder

    return begin


def test_a_wait_is_timed_and_returns_what_it_did(watch):
    original, part = Work.__dict__["wait"], Part()
    recorder = watch(part)
    assert Work().wait(3) == 3
    assert part.calls == ["enter", "exit"]
    recorder.on_train_end(None)
    assert Work.__dict__["wait"] is original
    assert not is_disabled(recorder)


def test_a_wait_inside_a_wait_is_a_part_of_it(watch):
    part, outer = Part(), Work()
    recorder, outer.inner = watch(part), Work()
    outer.wait()
    recorder.release()
    assert part.calls == ["enter", "exit"]


def test_waits_of_other_threads_do_not_hold_up_the_step(watch):
    part = Part()
    recorder = watch(part)
    thread = threading.Thread(target=Work().wait)
    thread.start()
    thread.join()
    recorder.release()
    assert part.calls == []


def test_a_single_rank_waits_for_nobody(watch):
    original = Work.__dict__["wait"]
    watch(Part(), world_size=1)
    assert Work.__dict__["wait"] is original


@pytest.mark.parametrize("fails", ["enter", "exit"])
@pytest.mark.filterwarnings("ignore:CollectiveWaits failed")
def test_its_failure_does_not_reach_the_collective(watch, fails):
    original = Work.__dict__["wait"]
    recorder = watch(Part(fails))
    assert [Work().wait(1), Work().wait(2)] == [1, 2]
    assert is_disabled(recorder)
    assert Work.__dict__["wait"] is original


def test_an_error_of_the_collective_is_the_programs(watch):
    part, outer = Part(), Work()
    recorder, outer.inner = watch(part), SimpleNamespace(wait=lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        outer.wait()
    recorder.release()
    assert part.calls == ["enter", "exit"]
