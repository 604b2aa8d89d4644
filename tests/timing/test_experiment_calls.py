"""What the program calls of a logger's `experiment` by itself."""

import sys

import numpy as np
import pytest
import torch
from lightning.pytorch import Callback, Trainer
from lightning.pytorch.demos.boring_classes import BoringModel
from lightning.pytorch.loggers import TensorBoardLogger

from lightning_gpuprof.callbacks.phase_timer import PhaseTimer
from lightning_gpuprof.recorders.sampling.stack_lines import place_in_loop
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.records.reader import read_run

STEPS = 8


class Step:
    """A number of a step that looks at the stack when it is asked for, inside of the call."""

    found = None

    def __int__(self):
        Step.found = place_in_loop(sys._getframe().f_back)
        return 0


class Draws(BoringModel):
    """Draws in every second step, and once in each validation."""

    def training_step(self, batch, batch_idx):
        if batch_idx % 2:
            self.logger.experiment.add_histogram("weights", self.layer.weight, batch_idx)
        if not batch_idx:
            self.logger.experiment.add_scalar("one", 1.0, Step())
        self.log("loss", 1.0)
        return super().training_step(batch, batch_idx)

    def on_validation_epoch_end(self):
        self.logger.experiment.add_image("batch", torch.zeros(3, 4, 4))


class InACallback(Callback):
    def on_train_batch_end(self, trainer, *args):
        trainer.logger.experiment.add_text("told", "by a callback")


@pytest.fixture
def trained(tmp_path):
    logger = TensorBoardLogger(tmp_path)
    trainer = Trainer(
        logger=logger, max_epochs=1, limit_train_batches=STEPS, val_check_interval=4,
        limit_val_batches=1, log_every_n_steps=1, callbacks=[InACallback(), PhaseTimer()],
    )  # fmt: skip
    trainer.fit(Draws())
    return logger, read_run(trainer.log_dir)[0].sessions[0]


def test_calls_in_a_step_are_logging_by_their_name(trained):
    _, session = trained
    drawn = session.columns["part/logging/experiment.add_histogram"] > 0
    assert drawn.tolist() == [False, True] * (STEPS // 2)
    # What the logger itself calls of it in each step is the logger's.
    scalar = session.columns["part/logging/experiment.add_scalar"]
    assert np.flatnonzero(scalar).tolist() == [0]
    assert (session.columns["part/logging/TensorBoardLogger"] > 0).all()


def test_samples_of_the_stack_are_charged_as_the_time_is(trained):
    at = Step.found
    assert (at.phase, at.function, at.kind) == (Phase.LOGGING, "training_step", "log")
    assert at.callee == "torch.add_scalar"


def test_calls_in_a_validation_are_a_part_of_it(trained):
    _, session = trained
    part, whole = (
        session.columns[f"{name}"]
        for name in ("part/validation/experiment.add_image", "phase/validation")
    )
    assert np.flatnonzero(part).tolist() == [3, 7]
    assert (part <= whole).all()


def test_calls_of_a_callback_are_the_callbacks(trained):
    _, session = trained
    assert not any(name.endswith("experiment.add_text") for name in session.columns)
    assert (session.columns["part/callbacks/InACallback"] > 0).all()
