"""What logging is timed by does not keep losses from being written a window at a time."""

from contextlib import nullcontext
from glob import glob

import pytest
from lightning.pytorch import Trainer
from lightning.pytorch.demos.boring_classes import BoringModel
from lightning.pytorch.loggers import TensorBoardLogger
from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
from tensorboard.compat.proto.event_pb2 import Event

from lightning_gpuprof import GpuProfCallback
from lightning_gpuprof.recorders.scalars.tensorboard_events import TensorBoardEvents
from lightning_gpuprof.session.timed_calls import LoggingCall, TimedCalls


@pytest.fixture
def logger(tmp_path):
    return TensorBoardLogger(tmp_path)


def logged(logger, name):
    raw = (event for path in glob(f"{logger.log_dir}/*tfevents*") for event in load(path))
    events = map(Event.FromString, raw)
    return [event.step for event in events for value in event.summary.value if value.tag == name]


def load(path):
    return RawEventFileLoader(path).Load()


def test_the_whole_callback_hands_tensorboard_its_losses_in_one_write(logger, monkeypatch):
    calls, own = [], TensorBoardLogger.log_metrics

    def log_metrics(self, metrics, step=None):
        calls.append(set(metrics))
        own(self, metrics, step)

    monkeypatch.setattr(TensorBoardLogger, "log_metrics", log_metrics)
    trainer = Trainer(
        logger=logger,
        max_epochs=1,
        limit_train_batches=12,
        limit_val_batches=0,
        callbacks=[GpuProfCallback(console=False, trace=False, report=False, lines=False)],
    )
    trainer.fit(BoringModel())

    assert not any("loss" in names for names in calls)
    assert {"loss_epoch"} in calls  # which is one value
    assert logged(logger, "loss") == list(range(12))


def test_a_call_of_the_programs_own_is_left_to_it_though_it_is_timed(logger):
    experiment, calls = logger.experiment, TimedCalls()
    calls.add(experiment, "add_scalar", nullcontext(), kind=LoggingCall)
    assert TensorBoardEvents.of(logger) is not None
    calls.restore()

    experiment.add_scalar = lambda *args, **kwargs: None
    calls.add(experiment, "add_scalar", nullcontext(), kind=LoggingCall)
    assert TensorBoardEvents.of(logger) is None
