"""Single facts of a fit, each by a recorder of its own."""

from types import SimpleNamespace

import pytest
import torch
from lightning.pytorch.demos.boring_classes import BoringModel
from lightning.pytorch.trainer.connectors import accelerator_connector
from torch.utils.data import DataLoader

from lightning_gpuprof.callbacks.run_facts import RunFacts
from lightning_gpuprof.recorders.anomaly_detection import CHECK_EVERY, AnomalyDetection
from lightning_gpuprof.recorders.batch_sizes import (
    BatchSizesRecorder,
    _Counts,
    count_padding,
    sequences_in,
)
from lightning_gpuprof.recorders.cores import CoreWaits
from lightning_gpuprof.recorders.embedding_tables import EmbeddingTablesRecorder
from lightning_gpuprof.recorders.first_batch import FirstBatch
from lightning_gpuprof.records import facts
from lightning_gpuprof.records.facts import CpuQuota
from lightning_gpuprof.records.schema import ProbeDisabled


class Texts(BoringModel):
    def training_step(self, batch, batch_idx):
        return self.layer(batch[:, :32].float()).mean()


def collate(samples):
    ids = torch.zeros(len(samples), 40, dtype=torch.long)
    for row, length in zip(ids, samples, strict=True):
        row[:length] = torch.arange(1, length + 1)
    return ids


@pytest.fixture
def fit(session_of):
    def fitted(*recorders, lengths=tuple(range(8, 32)), model=None, **options):
        data = DataLoader(list(lengths), batch_size=4, collate_fn=collate)
        return session_of(model or Texts(), RunFacts(recorders), data=data, **options)

    return fitted


def test_the_first_batchs_bytes_are_noted(fit):
    assert fit(FirstBatch()).all(facts.BatchBytes) == [facts.BatchBytes(4 * 40 * 8)]


class Teacher(Texts):
    def __init__(self):
        super().__init__()
        self.teacher = torch.nn.Linear(32, 2)

    def training_step(self, batch, batch_idx):
        return super().training_step(batch, batch_idx) + self.teacher(batch[:, :32].float()).mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.layer.parameters(), 0.1)


def test_gradients_of_parameters_in_no_optimizer_are_noted(fit):
    unused = facts.UnusedGradients(2, 66, 132, ("teacher",))
    assert fit(FirstBatch(), model=Teacher()).all(facts.UnusedGradients) == [unused]
    assert not fit(FirstBatch()).all(facts.UnusedGradients)


class Tables(Texts):
    """A large table of which a batch uses few rows, one that is tied, and a small one."""

    def __init__(self):
        super().__init__()
        self.words = torch.nn.Embedding(20_000, 32)
        self.tied = torch.nn.Embedding(9_000, 32)
        self.small = torch.nn.Embedding(100, 32)

    def training_step(self, batch, batch_idx):
        vectors = self.words(batch).sum(1) + self.tied(batch).sum(1) + self.small(batch).sum(1)
        return (vectors @ self.tied.weight.T).mean() + super().training_step(batch, batch_idx)


def test_sizes_and_padding_of_the_first_batches_are_recorded(fit):
    (recorded,) = fit(BatchSizesRecorder()).all(facts.BatchSizes)
    assert recorded.sizes == (4 * 40,) * 6
    (padding,) = recorded.padding  # of batches 1 and 5: lengths 8 to 11, and 24 to 27
    assert (padding.name, padding.shape, padding.dimension) == ("batch", (4, 40), 1)
    assert padding.positions == 2 * 4 * 40
    assert padding.padded == 4 * 80 - sum([*range(8, 12), *range(24, 28)])
    assert padding.common == 4 * (80 - 11 - 27)


@pytest.mark.parametrize(
    "values",
    [
        torch.eye(64)[:8].long(),  # sparse rows are not padded
        torch.nn.functional.pad(torch.rand(8, 20), (0, 20)),  # features, of which all are needed
        torch.randint(1, 9, (8, 64)),
        torch.ones(8, 64, dtype=torch.long),
        (torch.arange(64) < torch.arange(20, 36)[:, None]).long(),  # a mask
        torch.zeros(8, 64, dtype=torch.bool),
        torch.zeros(0, 64, dtype=torch.long),
    ],
)
def test_what_only_looks_like_padding_is_not_recorded(values):
    both = [
        (dimension, rows)
        for dimension, sequences in sequences_in(values)
        for rows in (sequences, sequences.flip(1))
    ]
    for dimension, sequences in both:
        counts = _Counts("batch", tuple(values.shape), dimension)
        counts.looks.append(count_padding(sequences))
        assert counts.result() is None


def test_padding_is_looked_for_along_both_dimensions_of_sequences():
    frames = torch.nn.functional.pad(torch.rand(4, 30, 24), (0, 0, 0, 10))
    assert [
        (dimension, count_padding(values).tolist()[:3])
        for dimension, values in sequences_in(frames)
    ] == [(1, [160, 40, 40]), (2, [96, 0, 0])]


def test_rows_of_large_tables_that_a_batch_uses_are_counted(fit):
    (recorded,) = fit(EmbeddingTablesRecorder(), model=Tables()).all(facts.EmbeddingTables)
    assert recorded.tables == (
        facts.EmbeddingTable("words", 20_000, 32, 20_000 * 32 * 4, used_rows=12),
        facts.EmbeddingTable("tied", 9_000, 32, 9_000 * 32 * 4, used_rows=9_000),
    )


def test_sparse_gradients_are_not_counted(fit):
    model = Tables()
    model.words.sparse = True
    (recorded,) = fit(EmbeddingTablesRecorder(), model=model).all(facts.EmbeddingTables)
    assert [table.name for table in recorded.tables] == ["tied"]


def test_what_a_quota_made_the_run_wait_for_is_noted_when_training_ends(fit):
    counted = iter([CpuQuota(2.5, 100, 10), CpuQuota(2.5, 300, 110)])
    session = fit(CoreWaits(lambda: next(counted)))
    assert session.last(CpuQuota) == CpuQuota(2.5, 200, 100)


def test_what_training_waited_for_a_core_is_noted_when_it_ends(fit):
    readings = [facts.CoreWait(1_000, 5), facts.CoreWait(3_000, 505)]
    found = fit(CoreWaits(lambda: readings.pop(0))).last(facts.CoreWait)
    assert (found.wall_ns, found.queued_ns, found.frac) == (2_000, 500, 0.25)


class Synced(Texts):
    def training_step(self, batch, batch_idx):
        self.log("each", 1.0, sync_dist=True)
        self.log("epoch", 1.0, sync_dist=True, on_step=False, on_epoch=True)
        self.log("alone", 1.0)
        return super().training_step(batch, batch_idx)


class OfTwoRanks(FirstBatch):
    """Records as it does where there are several ranks."""

    def on_first_batch_end(self, trainer, outputs, batch):
        two = SimpleNamespace(
            world_size=2,
            fit_loop=trainer.fit_loop,
            optimizers=[],
            lightning_module=torch.nn.Linear(1, 1),
        )
        super().on_first_batch_end(two, outputs, batch)


@pytest.mark.parametrize(("recorder", "names"), [(FirstBatch, []), (OfTwoRanks, [("each",)])])
def test_what_ranks_exchange_for_the_log_in_each_step_is_noted(fit, monkeypatch, recorder, names):
    # Of one rank Lightning forgets what is to be exchanged.
    connector = accelerator_connector._AcceleratorConnector
    monkeypatch.setattr(connector, "is_distributed", property(lambda self: True))
    session = fit(recorder(), model=Synced(), use_distributed_sampler=False)
    assert [one.names for one in session.all(facts.SyncedLogs)] == names


class Broken(FirstBatch):
    def on_train_start(self, trainer, host):
        raise ValueError("no")


def test_a_recorder_that_fails_is_switched_off_alone(fit, said):
    with said("Broken failed and is off"):
        records = fit(Broken(), FirstBatch())
    assert records.last(facts.BatchBytes) is not None
    assert [one.probe for one in records.all(ProbeDisabled)] == ["Broken"]


@pytest.mark.parametrize(
    ("on", "found"),
    [
        (lambda batch_idx: True, [True]),
        (lambda batch_idx: batch_idx == 0, [True, False]),  # off again
        (lambda batch_idx: False, []),
    ],
)
def test_anomaly_detection_is_recorded_while_it_is_on(fit, on, found):
    class Checked(Texts):
        def training_step(self, batch, batch_idx):
            torch.autograd.set_detect_anomaly(on(batch_idx))
            return super().training_step(batch, batch_idx)

    try:
        session = fit(AnomalyDetection(), lengths=[8] * 4 * (CHECK_EVERY + 5), model=Checked())
    finally:
        torch.autograd.set_detect_anomaly(False)
    assert [one.on for one in session.all(facts.AnomalyMode)] == found
