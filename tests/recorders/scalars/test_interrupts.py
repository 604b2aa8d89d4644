"""Ctrl-C may come at any moment of a window's way: no loss is lost and none is there twice."""

import pytest
from deferred_runs import Model, fit, recorded, scalars
from lightning.pytorch import Trainer

from lightning_gpuprof.callbacks.deferred_loss import DeferredLoss
from lightning_gpuprof.recorders.scalars import scalar_sink
from lightning_gpuprof.recorders.scalars.scalar_log import ScalarLog


def interrupt(monkeypatch, owner, name, *, nth):
    """Raise KeyboardInterrupt in the nth call of a function, before it has done anything."""
    function, calls = getattr(owner, name), []

    def interrupted(*args, **kwargs):
        calls.append(name)
        if len(calls) == nth:
            raise KeyboardInterrupt
        return function(*args, **kwargs)

    monkeypatch.setattr(owner, name, interrupted)


@pytest.fixture
def interrupted(tmp_path, monkeypatch):
    """Train until Ctrl-C; returns the model and its Trainer."""

    def train(callback):
        trainers, model = [], Model()
        monkeypatch.setattr(Trainer, "_teardown", lambda trainer: trainers.append(trainer))
        with pytest.raises((KeyboardInterrupt, SystemExit)):
            fit(tmp_path, model, callback)
        return model, trainers[0]

    return train


@pytest.mark.parametrize(
    ("owner", "name", "nth"),
    [
        (scalar_sink, "_joined", 2),
        (scalar_sink, "_not_finite", 2),
        (scalar_sink, "Scalars", 2),
        (ScalarLog, "_begin_window", 3),
    ],
)
def test_no_loss_is_lost_nor_kept_twice(interrupted, monkeypatch, owner, name, nth):
    interrupt(monkeypatch, owner, name, nth=nth)
    model, trainer = interrupted(DeferredLoss(window=2))
    assert recorded(trainer) == dict(enumerate(model.items))
    assert sum(len(record.steps) for record in scalars(trainer)) == len(model.items)


def test_a_step_whose_outputs_were_kept_in_part_is_none_and_those_before_it_stay(
    interrupted, monkeypatch
):
    interrupt(monkeypatch, ScalarLog, "_copy_of", nth=6)  # the loss itself needs no copy
    model, trainer = interrupted(DeferredLoss(["loss", "kl"]))
    assert recorded(trainer) == dict(enumerate(model.items[:5]))
    assert len(recorded(trainer, "kl")) == 5
