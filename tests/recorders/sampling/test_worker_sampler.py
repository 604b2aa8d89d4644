import multiprocessing
import os
import tempfile
from functools import partial
from types import SimpleNamespace

import pytest
import torch
import worker_data
from lightning.pytorch import Trainer, seed_everything
from lightning.pytorch.demos.boring_classes import BoringModel
from lightning.pytorch.utilities import CombinedLoader
from torch.utils.data import DataLoader

from lightning_gpuprof.callbacks.line_sampler import LineSampler
from lightning_gpuprof.recorders.sampling import worker_sampler
from lightning_gpuprof.recorders.sampling.worker_sampler import WorkerSampler
from lightning_gpuprof.recorders.sampling.worker_sampling import WorkerStart
from lightning_gpuprof.records.lines import WorkerLines


class Keeps(BoringModel):
    """Trains on four numbers a sample, and keeps them."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 2)
        self.kept = []

    def training_step(self, batch, batch_idx):
        parts = list(batch.values()) if isinstance(batch, dict) else list(batch)
        self.kept.extend(parts)
        return self.layer(parts[0]).sum()


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):  # pytest's own folder is made before
    """A folder for what is temporary; its path is short, as workers have sockets in it."""
    # What another test's `seed_everything` has set; Lightning sets functions of its own by it.
    monkeypatch.setenv("PL_SEED_WORKERS", "0")
    with tempfile.TemporaryDirectory() as made:
        monkeypatch.setattr(tempfile, "tempdir", made)
        yield
        assert not [name for name in os.listdir(made) if name.startswith("gpuprof")]


@pytest.fixture
def sampler():
    """One whose threads never come to take a sample of their own."""
    return WorkerSampler(interval_s=1e6)


@pytest.fixture
def fit(session_of):
    def fitted(workers, data, **options):
        model = Keeps()
        sampler = LineSampler(interval_s=1e6, workers=workers)
        session = session_of(model, sampler, data=data, **options)
        return session.last(WorkerLines), model.kept

    return fitted


def loader(data=None, **options):
    usual = {"num_workers": 2, "batch_size": 1, "multiprocessing_context": "fork", "timeout": 20}
    return DataLoader(worker_data.Looked() if data is None else data, **(usual | options))


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_lines_of_worker_processes_are_noted_and_nothing_is_left(fit, sampler, context):
    options = {"num_workers": 1 + (context == "fork"), "multiprocessing_context": context}
    data = loader(collate_fn=worker_data.gather, worker_init_fn=worker_data.begin, **options)
    found, kept = fit(sampler, data)
    assert {one.function for one in found.lines} == {"sample"}
    assert found.processes == options["num_workers"]
    assert found.work == found.whole == 80
    assert found.start_ns > 0
    assert found.init_ns > 0
    # The program's own function was called once in each worker, before any sample was made.
    assert all(float(one[3]) == 1.0 for one in kept)
    assert data.worker_init_fn is worker_data.begin
    assert not multiprocessing.active_children()


@pytest.mark.parametrize("seeded", [False, True])
def test_random_numbers_in_workers_stay_as_they_are(sampler, monkeypatch, seeded):
    def drawn(*callbacks):
        seed_everything(7, workers=seeded)
        model, plain = Keeps(), {"max_epochs": 1, "limit_val_batches": 0, "logger": False}
        Trainer(callbacks=list(callbacks), **plain).fit(model, loader())
        return torch.cat(model.kept)

    for name in ("PL_SEED_WORKERS", "PL_GLOBAL_SEED"):
        monkeypatch.setenv(name, "0")  # which `seed_everything` sets for good
    assert torch.equal(drawn(LineSampler(interval_s=1e6, workers=sampler)), drawn())


def test_workers_that_are_kept_and_those_of_several_epochs_add_up(fit, sampler):
    found, _ = fit(sampler, loader(persistent_workers=True), max_epochs=2)
    assert (found.processes, found.work) == (2, 80)
    sampler = WorkerSampler(interval_s=1e6)
    found, _ = fit(sampler, loader(), max_epochs=2)
    assert (found.processes, found.work) == (4, 80)


def test_only_the_first_two_workers_are_sampled_and_none_once_there_are_enough(fit):
    data = loader(worker_data.Looked(60), num_workers=3)
    found, _ = fit(WorkerSampler(interval_s=1e6, max_samples=20), data, max_epochs=2)
    assert (found.processes, found.work) == (2, 40)


def test_workers_of_later_epochs_stay_and_take_no_sample_unless_they_are_asked(fit):
    data = loader(worker_data.Looked(60))
    starts = []
    workers = WorkerSampler(interval_s=1e6, max_samples=20, stays=True)
    inner = workers.sample_next_workers

    def start(loop):
        inner(loop)
        starts.extend(replaced for _, replaced in workers._replaced)

    workers.sample_next_workers = start
    fit(workers, data, max_epochs=3)
    assert [(one.stays, one.max_samples) for one in starts] == [(True, 20), (True, 0), (True, 0)]
    assert data.worker_init_fn is None
    assert not multiprocessing.active_children()


def test_several_loaders_and_those_without_workers(fit, sampler):
    loaders = {"a": loader(), "b": loader(), "c": DataLoader(worker_data.Looked())}
    found, _ = fit(sampler, CombinedLoader(loaders, "min_size"))
    assert (found.processes, found.work) == (4, 80)
    assert {one.worker_init_fn for one in loaders.values()} == {None}


def test_an_iterable_dataset_is_sampled_and_without_workers_there_is_nothing(fit, sampler):
    found, kept = fit(sampler, loader(worker_data.Stream()))
    assert (found.processes, found.work, len(kept)) == (2, 40, 40)
    assert fit(sampler, DataLoader(worker_data.Looked()))[0] is None


def test_what_the_programs_own_function_raises_is_raised_and_the_loader_put_back(fit, sampler):
    data = loader(worker_init_fn=worker_data.fail)
    with pytest.raises(ValueError, match="planted in worker_init_fn"):
        fit(sampler, data)
    assert data.worker_init_fn is worker_data.fail


def test_a_folder_that_cannot_be_made_is_no_reason_to_complain(fit, sampler, monkeypatch, recwarn):
    full = SimpleNamespace(mkdtemp=partial(fails, OSError("full")))
    monkeypatch.setattr(worker_sampler, "tempfile", full)
    assert fit(sampler, loader())[0] is None
    assert not [one for one in recwarn if "WorkerSampler" in str(one.message)]


def fails(error, *args, **kwargs):
    raise error


def test_a_failure_amid_the_making_of_iterators_puts_everything_back(
    fit, sampler, monkeypatch, said
):
    data = [loader(worker_init_fn=worker_data.begin), loader()]
    made = []

    def start(**settings):
        if made:
            raise RuntimeError("planted")
        made.append(WorkerStart(**settings))
        return made[0]

    monkeypatch.setattr(worker_sampler, "WorkerStart", start)
    monkeypatch.setattr(worker_sampler, "_starts_workers", lambda loader: True)
    with said("WorkerSampler failed and is off"):
        fit(sampler, CombinedLoader(data, "min_size"))
    assert [one.worker_init_fn for one in data] == [worker_data.begin, None]
