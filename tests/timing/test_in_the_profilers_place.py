"""What a program finds in the profiler's place while it trains, and afterwards."""

from contextlib import contextmanager

import pytest
from lightning.pytorch import Callback, Trainer
from lightning.pytorch.demos.boring_classes import BoringModel
from lightning.pytorch.profilers import PassThroughProfiler, SimpleProfiler

from lightning_gpuprof.callbacks.phase_timer import PhaseTimer


class Counts:
    """What a program's own class may have beside."""

    counted = 0

    @property
    def double(self):
        return 2 * self.counted

    @double.setter
    def double(self, value):
        self.counted = value // 2

    def count(self):
        self.counted += 1


class CountingNothing(Counts, PassThroughProfiler):
    """One that times nothing."""


class CountingTimes(Counts, SimpleProfiler):
    """One that times actions."""


class Listing(PassThroughProfiler):
    """Notes what Lightning's own would leave alone."""

    def __init__(self):
        super().__init__()
        self.begun = []

    def start(self, action_name):
        self.begun.append(action_name)


class Wrapping(Listing):
    @contextmanager
    def profile(self, action_name):
        self.begun.append(action_name)
        yield action_name


def train(tmp_path, profiler, look):
    class Look(Callback):
        def on_train_batch_start(self, trainer, *_):
            look(trainer.profiler)

    trainer = Trainer(
        max_steps=2, logger=False, profiler=profiler, default_root_dir=tmp_path,
        callbacks=[PhaseTimer(console=False), Look()], limit_val_batches=0,
    )  # fmt: skip
    own = trainer.profiler
    trainer.fit(BoringModel())
    assert trainer.profiler is own
    return own


@pytest.mark.parametrize("profiler", [None, "simple"])
def test_what_a_program_keeps_there_is_there_afterwards(tmp_path, profiler):
    def look(found):
        found.kept = getattr(found, "kept", 0) + 1
        assert isinstance(found.local_rank, int)
        found.filename = "mine"

    kept = train(tmp_path, profiler, look)
    assert (kept.kept, kept.filename) == (2, "mine")
    assert not {"profile", "_regions", "_timeline"} & set(vars(kept))


@pytest.mark.parametrize("kind", [CountingNothing, CountingTimes])
def test_methods_and_properties_of_a_programs_own_class_are_there(tmp_path, kind):
    def look(found):
        found.count()
        found.double += 4

    assert train(tmp_path, kind(), look).counted == 6


@pytest.mark.parametrize("profiler", [None, "simple"])
def test_what_is_nowhere_is_missed(tmp_path, profiler):
    def look(found):
        with pytest.raises(AttributeError):
            _ = found.nowhere

    train(tmp_path, profiler, look)


@pytest.mark.parametrize("kind", [Listing, Wrapping])
def test_one_derived_from_the_profiler_that_does_nothing_is_called_if_it_does_something(
    tmp_path, kind
):
    begun = train(tmp_path, kind(), lambda found: None).begun
    assert begun.count("run_training_batch") == 2
