"""The looks at the first batches that need a Trainer and little else."""

import os
import threading
from types import SimpleNamespace

import pytest
import torch
from lightning.pytorch.demos.boring_classes import BoringModel
from lightning.pytorch.trainer.connectors import accelerator_connector
from torch.utils.data import DataLoader

from lightning_gpuprof.callbacks.watches.batch_watch import BatchWatch
from lightning_gpuprof.callbacks.watches.core_watch import CoreWatch
from lightning_gpuprof.callbacks.watches.log_watch import LogWatch
from lightning_gpuprof.callbacks.watches.quota_watch import QuotaWatch
from lightning_gpuprof.probes.core_times import CoreTimes, Process
from lightning_gpuprof.records.core_use import core_use_noted
from lightning_gpuprof.records.cpu_quota import CpuQuota, cpu_quota_noted
from lightning_gpuprof.records.notes import SYNCED_NOTE
from lightning_gpuprof.records.schema import BATCH_NOTE, Note


class Texts(BoringModel):
    def training_step(self, batch, batch_idx):
        return self.layer(batch[:, :32].float()).mean()


def collate(samples):
    ids = torch.zeros(len(samples), 40, dtype=torch.long)
    for row, length in zip(ids, samples, strict=True):
        row[:length] = 1
    return ids


@pytest.fixture
def fit(session_of):
    def fitted(*callbacks, lengths=tuple(range(8, 32)), model=None, **options):
        data = DataLoader(list(lengths), batch_size=4, collate_fn=collate)
        return session_of(model or Texts(), *callbacks, data=data, **options)

    return fitted


def test_the_first_batchs_bytes_are_noted(fit):
    notes = fit(BatchWatch()).all(Note)
    assert [note.value for note in notes if note.name == BATCH_NOTE] == [4 * 40 * 8]


def test_what_a_quota_made_the_run_wait_for_is_noted_when_training_ends(fit):
    counted = iter([CpuQuota(2.5, 100, 10), CpuQuota(2.5, 300, 110)])
    noted = fit(QuotaWatch(read=lambda: next(counted))).all(Note)
    assert cpu_quota_noted(noted) == CpuQuota(2.5, 200, 100)


def test_without_a_quota_nothing_is_noted(fit):
    assert cpu_quota_noted(fit(QuotaWatch(read=lambda: None)).all(Note)) is None


def test_who_used_the_cores_is_noted_when_training_ends(fit):
    pid, thread = os.getpid(), threading.get_native_id()
    looks = [
        CoreTimes(at, 2, 3 * at, 0, {pid: Process("python", 1, 1, at, 0)}, {thread: at // 2})
        for at in (0, 1_000)
    ]
    used = core_use_noted(fit(CoreWatch(read=lambda: looks.pop(0))).all(Note))
    assert (used.wall_ns, used.own_ns, used.queued_ns) == (1_000, 1_000, 500)
    assert used.foreign_cores == 2.0


def test_where_no_account_is_kept_of_the_cores_nothing_is_noted(fit):
    assert core_use_noted(fit(CoreWatch(read=lambda: None)).all(Note)) is None


class Synced(Texts):
    def training_step(self, batch, batch_idx):
        self.log("each", 1.0, sync_dist=True)
        self.log("epoch", 1.0, sync_dist=True, on_step=False, on_epoch=True)
        self.log("alone", 1.0)
        return super().training_step(batch, batch_idx)


class OfTwoRanks(LogWatch):
    """Looks as it does where there are several ranks."""

    def on_train_start(self, trainer, pl_module):
        ranks = SimpleNamespace(world_size=2, callbacks=trainer.callbacks)
        super().on_train_start(ranks, pl_module)


@pytest.mark.parametrize(("watch", "names"), [(LogWatch, []), (OfTwoRanks, [["each"]])])
def test_what_ranks_exchange_for_the_log_in_each_step_is_noted(fit, monkeypatch, watch, names):
    # Of one rank Lightning forgets what is to be exchanged.
    connector = accelerator_connector._AcceleratorConnector
    monkeypatch.setattr(connector, "is_distributed", property(lambda self: True))
    noted = fit(watch(), model=Synced(), use_distributed_sampler=False).all(Note)
    assert [note.value for note in noted if note.name == SYNCED_NOTE] == names
