import itertools

import pytest
import torch
from lightning.pytorch.demos.boring_classes import BoringModel
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info

from lightning_gpuprof.callbacks.run_facts import RunFacts
from lightning_gpuprof.recorders.stream_batches import StreamBatchesRecorder
from lightning_gpuprof.records.facts import StreamBatches


class Numbers(IterableDataset):
    """Rows of ascending numbers; `divided` among the workers, or all of them in each."""

    def __init__(self, *, divided=False, constant=False):
        self.divided, self.constant = divided, constant

    def __iter__(self):
        worker = get_worker_info()
        rows = range(12)
        if self.divided:
            rows = itertools.islice(rows, worker.id, None, worker.num_workers)
        for row in rows:
            yield torch.full((32,), 0.0 if self.constant else float(row))


class Indexed(Dataset):
    def __len__(self):
        return 12

    def __getitem__(self, index):
        return torch.ones(32)


@pytest.fixture
def recorded(session_of):
    def fitted(data, *, workers=2):
        context = "fork" if workers else None
        loader = DataLoader(data, num_workers=workers, multiprocessing_context=context)
        model = BoringModel()
        session = session_of(model, RunFacts([StreamBatchesRecorder()]), data=loader)
        strategy = model.trainer.strategy
        assert "batch_to_device" not in vars(strategy)
        return session.all(StreamBatches)

    return fitted


def test_workers_that_all_read_the_whole_stream_yield_the_same_batches(recorded):
    assert recorded(Numbers()) == [StreamBatches(2, same=True)]


def test_workers_that_divide_the_stream_do_not(recorded):
    assert recorded(Numbers(divided=True)) == [StreamBatches(2, same=False)]


def test_batches_that_never_change_show_nothing(recorded):
    assert recorded(Numbers(constant=True)) == [StreamBatches(2, same=False)]


@pytest.mark.parametrize(("data", "workers"), [(Numbers(), 1), (Indexed(), 2)])
def test_one_worker_and_indexed_datasets_are_left_alone(recorded, data, workers):
    assert recorded(data, workers=workers) == []
