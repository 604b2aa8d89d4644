import os
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from lightning.pytorch.loggers import CSVLogger, TensorBoardLogger
from lightning.pytorch.loggers.logger import Logger

from lightning_gpuprof.runtime import log_dir as log_dirs
from lightning_gpuprof.runtime.log_dir import resolve_session
from lightning_gpuprof.runtime.rank_store import SESSION, RankStore


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
    folder, session = resolve_session(trainer, override, RankStore())
    assert session == 0
    return folder


class Stub(SimpleNamespace):
    """Can be referred to weakly, as a Trainer can."""


@pytest.fixture
def trainer(tmp_path):
    def make(*loggers, **options):
        facts = {
            "is_global_zero": options.get("global_rank", 0) == 0,
            "global_rank": 0,
            "fast_dev_run": False,
            "state": SimpleNamespace(fn=None),
            "default_root_dir": str(tmp_path),
            "loggers": list(loggers),
        }
        return Stub(**(facts | options))

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


@pytest.mark.parametrize("folder", ["s3://bucket/logs", Path("s3://bucket/logs"), "s3:/bucket"])
def test_a_logger_without_one_and_a_bucket_are_passed_over(trainer, tmp_path, folder):
    class Bucket(Named):
        log_dir = folder

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


@pytest.fixture
def keys():
    """The process group's store, here of one process: two machines share it."""
    return torch.distributed.HashStore()


@pytest.fixture
def ranks(keys):
    return RankStore(keys, nodes=2)


@pytest.mark.parametrize("folder", ["mine", "with a space", b"no utf-8 \xff"])
def test_other_ranks_are_told_what_rank_zero_chose(trainer, tmp_path, ranks, folder):
    folder = os.path.join(tmp_path, os.fsdecode(folder))

    chosen = resolve_session(trainer(), folder, ranks)

    assert chosen == (folder, 0)
    assert resolve_session(trainer(Broken("x"), global_rank=1), None, ranks) == chosen


@pytest.mark.parametrize("alone", [True, False])
def test_a_rank_that_is_not_told_in_time_decides_by_the_same_rule(
    trainer, tmp_path, ranks, monkeypatch, alone
):
    monkeypatch.setattr(log_dirs, "TIMEOUT", timedelta(milliseconds=1))
    csv = CSVLogger(tmp_path)

    chosen, _ = resolve_session(
        trainer(csv, global_rank=1), None, ranks if alone else RankStore(None)
    )

    assert chosen == csv.log_dir == log_dir(trainer(csv))


def test_a_logger_that_fails_does_not_keep_the_others_waiting(trainer, tmp_path, ranks):
    chosen, _ = resolve_session(trainer(Broken("x")), None, ranks)
    assert chosen == str(tmp_path / "lightning_logs" / "version_0")
    assert ranks.get(SESSION) == f"0 {chosen}"


def test_of_other_machines_the_names_are_taken_that_are_there(ranks):
    assert ranks.hosts()[1:] == [""]
    ranks.set("host1", "node1")
    assert ranks.hosts()[1:] == ["node1"]
    assert RankStore().hosts() == []


def test_nothing_is_left_in_the_store(keys, ranks):
    ranks.set(SESSION, "0 logs")
    ranks.set("host1", "node1")
    for _ in range(2):
        ranks.close(delete=True)
    assert keys.num_keys() == 0
    assert ranks.get(SESSION) == ""
