import planted as training_runs
import pytest
import torch
from lightning.pytorch import Trainer
from lightning.pytorch.demos.boring_classes import BoringModel
from lightning.pytorch.loggers import CSVLogger
from lightning.pytorch.loops.training_epoch_loop import _TrainingEpochLoop

from lightning_gpuprof.callbacks.phase_timer import PhaseTimer
from lightning_gpuprof.records.reader import read_run
from lightning_gpuprof.timing import overhead


@pytest.fixture(autouse=True)
def plain_trainers(monkeypatch):
    """Defaults of every Trainer here: Lightning takes what is not passed from the environment."""
    for name in ("ENABLE_PROGRESS_BAR", "ENABLE_MODEL_SUMMARY", "ENABLE_CHECKPOINTING"):
        monkeypatch.setenv(f"PL_TRAINER_{name}", "False")
    monkeypatch.setenv("PL_TRAINER_ACCELERATOR", "cpu")


@pytest.fixture(autouse=True)
def boundaries_cost_the_same(monkeypatch):
    """What a busy machine takes for a region's boundary must not decide which steps are marked."""
    monkeypatch.setattr(overhead, "boundary_cost_ns", lambda: 100.0)


class FailsAt(BoringModel):
    """An error in one of its batches ends training."""

    def __init__(self, batch, error):
        super().__init__()
        self.fails_at, self.error = batch, error

    def training_step(self, batch, batch_idx):
        if batch_idx == self.fails_at:
            raise self.error
        return super().training_step(batch, batch_idx)


@pytest.fixture
def shown(caplog):
    """The lines shown to the user so far that hold a text."""
    caplog.set_level("INFO", logger="lightning_gpuprof")
    return lambda text="": [
        line for line in (record.getMessage() for record in caplog.records) if text in line
    ]


@pytest.fixture
def session_of(tmp_path):
    """Train for an epoch without validation, and return the session that the run left."""

    def trained(model, *callbacks, data=None, **options):
        plain = {"max_epochs": 1, "limit_val_batches": 0, "logger": CSVLogger(tmp_path)}
        trainer = Trainer(callbacks=list(callbacks), **(plain | options))
        trainer.fit(model, data)
        return read_run(trainer.loggers[0].log_dir)[0].sessions[0]

    return trained


@pytest.fixture(scope="session")
def planted():
    """`tests/planted.py`: training runs on a fake clock with planted delays."""
    return training_runs


@pytest.fixture
def clock(planted):
    return planted.FakeClock()


@pytest.fixture(scope="session")
def repeated():
    """Batches that this Lightning trains again after a resume from `on_train_batch_end`."""
    return 0 if hasattr(_TrainingEpochLoop, "restarted_on_train_batch_end") else 1


@pytest.fixture
def timer(clock):
    return PhaseTimer(window=4, console=False, clock=clock)


@pytest.fixture
def check(planted, clock, timer):
    """All that was planted is found in its own phase, and nothing else is."""

    def checked(number=-1, *, planted_before=()):
        measured = planted.sessions(timer)[number]
        measured.check_sums()
        expected = planted.planted_by_phase(clock)
        for phase, delay in dict(planted_before).items():
            expected[phase] -= delay
        assert measured.phase_ns() == {name: ns for name, ns in expected.items() if ns}
        return measured

    return checked


@pytest.fixture
def fit(tmp_path):
    """Train a few batches with some callbacks, and return the Trainer."""

    def train(*callbacks, model=None, **options):
        defaults = {
            "max_epochs": 1,
            "limit_train_batches": 12,
            "limit_val_batches": 2,
            "default_root_dir": tmp_path,
        }
        trainer = Trainer(callbacks=list(callbacks), **(defaults | options))
        trainer.fit(BoringModel() if model is None else model)
        return trainer

    return train


@pytest.fixture
def mesh():
    """Two ranks, of which this process is one and no other exists: nothing is communicated."""
    distributed = torch.distributed
    store = pytest.importorskip("torch.testing._internal.distributed.fake_pg").FakeStore()
    if distributed.is_initialized():  # by a Trainer: these keep theirs until the process ends
        distributed.destroy_process_group()
    distributed.init_process_group("fake", rank=0, world_size=2, store=store)
    yield distributed.device_mesh.init_device_mesh("cpu", (2,))
    distributed.destroy_process_group()
