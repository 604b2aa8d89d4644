"""What the child of `try` changes about a Trainer."""

import pytest
from lightning.pytorch import Callback, Trainer
from lightning.pytorch.loggers import CSVLogger

from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.records.trials import ChangedSettings
from lightning_gpuprof.trials.child import ChildTrainers
from lightning_gpuprof.trials.processes import Request


class Plots(Callback):
    pass


class Others(Callback):
    pass


@pytest.fixture
def changed(tmp_path):
    """Return the names of the callbacks and loggers of a Trainer in a child with these settings."""

    def names(**settings):
        request = Request(
            ["train.py"], settings=ChangedSettings(**settings), folder=str(tmp_path / "child")
        )
        trainer = Trainer(
            callbacks=[Plots(), Others()],
            logger=CSVLogger(tmp_path),
            enable_checkpointing=False,
            enable_progress_bar=False,
            accelerator="cpu",
        )
        ChildTrainers(request).made(trainer)
        return [
            [type(thing).__name__ for thing in things]
            for things in (trainer.callbacks, trainer.loggers)
        ]

    return names


def test_a_trial_trains_as_the_program_does(changed):
    callbacks, loggers = changed()
    assert {"Plots", "Others"} <= set(callbacks)
    assert loggers == ["CSVLogger"]


def test_a_trial_without_a_callback_has_the_others(changed):
    callbacks, _ = changed(without_callbacks=("Plots",))
    assert "Plots" not in callbacks
    assert "Others" in callbacks


def test_a_trial_without_loggers_has_one_that_does_nothing(changed):
    assert changed(without_loggers=True)[1] == ["DummyLogger"]


def test_a_callback_that_is_not_there_is_an_error(changed):
    with pytest.raises(ConfigError, match="has no callback Plot"):
        changed(without_callbacks=("Plot",))
