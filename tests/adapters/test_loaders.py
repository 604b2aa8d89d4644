import gc
import weakref

import torch
from lightning.pytorch import Trainer
from lightning.pytorch.demos.boring_classes import BoringModel, RandomDataset
from torch.utils.data import DataLoader

from lightning_gpuprof.adapters.loaders import LoaderParts
from lightning_gpuprof.callbacks.phase_timer import PhaseTimer
from lightning_gpuprof.records.reader import read_run


class Told:
    """A region that says when it opens and closes."""

    def __init__(self, name, said):
        self.name, self.said = name, said

    def __enter__(self):
        self.said.append(f"{self.name} begins")

    def __exit__(self, *raised):
        self.said.append(f"{self.name} ends")


class Fetching:
    """What a Trainer is to `LoaderParts`: the way to an iterator."""

    def __init__(self, iterator):
        self.iterators = [iterator]

    @property
    def fit_loop(self):
        return self

    _data_fetcher = iterator = _iterator = fit_loop


def parts_of(said):
    return LoaderParts(*(Told(name, said) for name in ("sampler", "workers", "start")))


def loader(**options):
    return DataLoader(range(6), batch_size=2, **options)


def test_the_sampler_is_timed_and_batches_stay_the_same():
    said = []
    iterator = iter(loader())
    parts = parts_of(said)
    parts.watch(Fetching(iterator))

    assert [batch.tolist() for batch in iterator] == [[0, 1], [2, 3], [4, 5]]
    assert said == ["sampler begins", "sampler ends"] * 4  # the last finds nothing left


def test_waiting_for_a_worker_is_timed_until_it_is_restored():
    said = []
    iterator = iter(loader(num_workers=1, prefetch_factor=2))
    parts = parts_of(said)
    parts.watch(Fetching(iterator))
    parts.watch(Fetching(iterator))  # as for the next epoch of kept workers

    assert next(iterator).tolist() == [0, 1]
    assert said.count("workers begins") == 1
    parts.restore()
    said.clear()
    assert [batch.tolist() for batch in iterator] == [[2, 3], [4, 5]]
    assert said == []


def test_an_iterator_that_is_dropped_goes_at_once():
    gc.disable()
    try:
        iterator = iter(loader(num_workers=1))
        parts_of([]).watch(Fetching(iterator))
        gone = weakref.ref(iterator)
        del iterator
        assert gone() is None
    finally:
        gc.enable()


def test_a_fit_records_the_parts_of_the_wait(tmp_path):
    class Model(BoringModel):
        def train_dataloader(self):
            return DataLoader(RandomDataset(32, 16), batch_size=4, num_workers=1)

    torch.manual_seed(0)
    trainer = Trainer(
        default_root_dir=tmp_path, max_epochs=2, limit_val_batches=0, callbacks=[PhaseTimer()]
    )
    trainer.fit(Model())

    session = read_run(trainer.log_dir)[0].sessions[-1]
    wait = session.columns["phase/data_wait"]
    for part in ("sampler", "workers"):
        column = session.columns[f"part/data_wait/{part}"]
        assert (column > 0).sum() >= 4
        assert (column <= wait).all()
