"""Chooses the log dir of a run and the number of a session, which all ranks share."""

import os
import shutil
import tempfile
import weakref
from functools import partial

from lightning_gpuprof.adapters.lightning import Trainer, is_kind, stage_of
from lightning_gpuprof.config import is_url
from lightning_gpuprof.records.writer import next_session
from lightning_gpuprof.runtime.console import say
from lightning_gpuprof.runtime.guard import attempt
from lightning_gpuprof.runtime.rank_store import SESSION, TIMEOUT, RankStore


def resolve_session(
    trainer: Trainer, override: str | os.PathLike[str] | None, ranks: RankStore
) -> tuple[str, int]:
    """Return the run's log dir and the number of the session that begins.

    The log dir is the first of these that exists: the override; the `log_dir` of the first
    TensorBoardLogger; that of another logger; a new
    `<default_root_dir>/lightning_logs/version_<n>`. With `fast_dev_run` it is a temporary folder,
    which is deleted with the Trainer. The files of an evaluation go to a subfolder that has the
    name of its stage.

    Rank 0 decides for all ranks. A rank that does not learn rank 0's decision in time decides for
    itself.
    """
    if not trainer.is_global_zero and (decision := ranks.get(SESSION, timeout=TIMEOUT)):
        number, _, folder = decision.partition(" ")
        return folder, int(number)
    fallback = attempt(partial(os.path.abspath, "lightning_logs"), "lightning_logs")
    folder = attempt(lambda: _choose(trainer, override), fallback)
    if (stage := stage_of(trainer)) != "fit":
        folder = os.path.join(folder, stage)
    session = attempt(lambda: next_session(folder, rank=trainer.global_rank), 0)
    if trainer.is_global_zero:
        ranks.set(SESSION, f"{session} {folder}")
    else:
        say(
            f"[PROFILE] rank {trainer.global_rank} did not learn rank 0's log dir: it uses {folder}"
        )
    return folder, session


def _choose(trainer: Trainer, override: str | os.PathLike[str] | None) -> str:
    if override is not None:
        return os.path.abspath(os.path.expanduser(os.fspath(override)))
    if getattr(trainer, "fast_dev_run", False):
        temporary = tempfile.mkdtemp(prefix="lightning_gpuprof-fast_dev_run-")
        weakref.finalize(trainer, shutil.rmtree, temporary, ignore_errors=True)
        return temporary
    loggers = sorted(trainer.loggers, key=lambda logger: not is_kind(logger, "TensorBoardLogger"))
    for logger in loggers:
        if folder := _local(attempt(partial(getattr, logger, "log_dir"), None)):
            return os.path.abspath(folder)
    root = _local(trainer.default_root_dir) or os.getcwd()
    return _fresh_version(os.path.join(os.path.abspath(root), "lightning_logs"))


def _local(folder: object) -> str | None:
    """Return a path on this machine; None if there is none, or if it is a URL of remote storage."""
    if not folder or is_url(folder):
        return None
    return str(folder)


def _fresh_version(folder: str) -> str:
    existing: list[str] = attempt(lambda: os.listdir(folder), [])
    number = 0
    while f"version_{number}" in existing:
        number += 1
    return os.path.join(folder, f"version_{number}")
