import os
from types import SimpleNamespace

import pytest
from lightning.pytorch.loggers import CSVLogger, TensorBoardLogger
from lightning.pytorch.loggers.logger import Logger

from lightning_gpuprof.session.log_dir import resolve_session


class Named(Logger):
    """A logger without a log_dir, as W&B's and MLflow's are."""

    log_metrics = log_hyperparams = None
    name = "project"

    def __init__(self, version):
        self._version = version

    @property
    def version(self):
        return self._version


def log_dir(trainer, override=None):
    folder, session = resolve_session(trainer, override)
    assert session == 0
    return folder


class Stub(SimpleNamespace):
    """Can be referred to weakly, as a Trainer can."""


@pytest.fixture
def trainer(tmp_path):
    def make(*loggers, **options):
        sent = []
        facts = {
            "is_global_zero": True,
            "fast_dev_run": False,
            "default_root_dir": str(tmp_path),
            "loggers": list(loggers),
            "strategy": SimpleNamespace(broadcast=lambda value: sent.append(value) or value),
        }
        return Stub(**(facts | options), sent=sent)

    return make


def test_the_override_comes_first(trainer, tmp_path):
    chosen = log_dir(trainer(CSVLogger(tmp_path)), tmp_path / "mine")

    assert chosen == str(tmp_path / "mine")


def test_a_tensorboard_logger_comes_before_others(trainer, tmp_path):
    csv, board = CSVLogger(tmp_path / "csv"), TensorBoardLogger(tmp_path / "board", version=3)

    assert log_dir(trainer(csv, board)) == board.log_dir


def test_any_log_dir_will_do(trainer, tmp_path):
    csv = CSVLogger(tmp_path / "csv")

    assert log_dir(trainer(Named("x"), csv)) == csv.log_dir


def test_a_logger_without_one_and_a_bucket_are_passed_over(trainer, tmp_path):
    class Bucket(Named):
        log_dir = "s3://bucket/logs"

    chosen = log_dir(trainer(Named("v"), Bucket("v")))

    assert chosen == str(tmp_path / "lightning_logs" / "version_0")


def test_without_a_logger_each_run_has_a_fresh_folder(trainer, tmp_path):
    os.makedirs(tmp_path / "lightning_logs" / "version_0")

    assert log_dir(trainer()) == str(tmp_path / "lightning_logs" / "version_1")


def test_fast_dev_run_leaves_nothing_in_the_users_folders(trainer, tmp_path):
    running = trainer(fast_dev_run=1)
    chosen = log_dir(running)

    assert os.path.isdir(chosen)
    assert not chosen.startswith(str(tmp_path))
    del running
    assert not os.path.exists(chosen)


class Broken(Named):
    @property
    def log_dir(self):
        raise RuntimeError("no network")


def test_only_rank_zero_asks_its_loggers_and_all_take_part(trainer):
    other = trainer(Broken("x"), is_global_zero=False)
    other.strategy.broadcast = lambda value: ("from rank 0", 3)

    assert resolve_session(other) == ("from rank 0", 3)


def test_a_logger_that_fails_does_not_keep_the_others_waiting(trainer, tmp_path):
    broken = trainer(Broken("x"))

    assert log_dir(broken) == str(tmp_path / "lightning_logs" / "version_0")
    assert len(broken.sent) == 1
