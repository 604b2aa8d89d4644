import os
from types import SimpleNamespace

import pytest
import torch
from lightning.pytorch.demos.boring_classes import BoringModel
from torch.utils.data import DataLoader, Subset

from lightning_gpuprof.callbacks.run_facts import RunFacts
from lightning_gpuprof.recorders.device.device_stats import StatsSampler
from lightning_gpuprof.recorders.worker_memory import (
    WorkerMemories,
    WorkerMemoryReader,
    dataset_objects,
)
from lightning_gpuprof.records.facts import DatasetObjects, WorkerMemory
from lightning_gpuprof.records.schema import Note
from lightning_gpuprof.runtime.host_memory import ProcessPages

MIB = 2**20


@pytest.fixture
def reader(clock):
    """A reader of a made-up machine: each process has 100 MiB private, by its number more."""

    def made(step=lambda: 7, ended=(), cost_ns=0):
        def pages(pid):
            clock.now_ns += cost_ns
            return None if pid in ended else ProcessPages((100 + pid) * MIB, 500 * MIB)

        return WorkerMemoryReader(
            step, pages=pages, available=lambda: 9 * MIB, clock=clock, cpu_clock=clock
        )

    return made


def test_the_first_worker_stands_for_all(reader):
    stats = reader()
    stats.workers = (1, 3, 40, 50)
    assert stats.read() == WorkerMemory(
        step=7,
        generation=1,
        workers=4,
        private_bytes=4 * 101 * MIB,
        anonymous_bytes=4 * 500 * MIB,
        available_bytes=9 * MIB,
    )


def test_new_workers_are_a_new_generation_and_those_that_end_are_not_read(reader):
    stats = reader(ended=(5,))
    for workers in ((1, 2), (1, 2), (5, 6), (7, 8)):
        stats.workers = workers
        reading = stats.read()
        if reading is not None:
            assert reading.generation == {1: 1, 7: 2}[workers[0]]
        else:
            assert workers == (5, 6)


def test_readings_are_further_apart_in_a_long_run_and_where_they_take_long(reader, clock):
    stats = reader(cost_ns=50_000_000)
    assert stats.interval_s() == pytest.approx(0.1)
    clock.now_ns += 10 * 10**9
    assert stats.interval_s() == pytest.approx(0.5)
    stats.workers = (1, 2)
    stats.read()
    assert stats.interval_s() == pytest.approx(0.05 / 0.02)


class Lines(torch.utils.data.Dataset):
    def __init__(self, count=4_000):
        self.lines = [{"text": str(index)} for index in range(count)]
        self.offsets = torch.arange(count)

    def __len__(self):
        return 8

    def __getitem__(self, index):
        return torch.ones(32)


def test_the_longest_collection_of_objects_is_found_inside_other_datasets():
    held = DatasetObjects("Lines", "lines", "list", 4_000, "dict")
    assert dataset_objects(Subset(Lines(), range(8))) == held
    assert dataset_objects(torch.utils.data.ConcatDataset([Lines(2_000), Lines()])) == held


def test_short_collections_and_those_of_tensors_are_no_objects():
    assert dataset_objects(Lines(count=9)) is None
    assert dataset_objects(SimpleNamespace(images=[torch.ones(1)] * 5_000)) is None
    assert dataset_objects(None) is None


class Inline(StatsSampler):
    """Takes one reading each time it is asked, and has no thread."""

    def start(self):
        pass

    def take(self):
        self._readings = [self._stats.read()]
        return super().take()


@pytest.fixture
def fit(session_of):
    def fitted(recorder, workers):
        data = DataLoader(Lines(), batch_size=4, num_workers=workers)
        return session_of(BoringModel(), RunFacts([recorder]), data=data)

    return fitted


@pytest.mark.skipif(not os.path.exists("/proc/self/smaps_rollup"), reason="needs Linux")
def test_a_fit_with_workers_leaves_their_memory_and_what_the_dataset_holds(fit):
    session = fit(WorkerMemories(sampler=Inline), workers=2)
    [reading] = session.all(WorkerMemory)
    assert reading.workers == 2
    assert 0 < reading.private_bytes
    assert 0 < reading.anonymous_bytes
    assert session.last(DatasetObjects).attribute == "lines"


def test_without_workers_nothing_is_read_or_noted(fit):
    session = fit(WorkerMemories(sampler=Inline), workers=0)
    assert session.all(WorkerMemory) == []
    assert session.all(Note) == []


def test_where_the_system_shows_no_memory_of_processes_that_is_noted(fit):
    class Hidden(WorkerMemoryReader):
        def read(self):
            raise AssertionError

    class Refused(Inline):
        def take(self):
            self.error = "PermissionError: smaps_rollup"
            return []

    session = fit(WorkerMemories(reader=Hidden, sampler=Refused), workers=1)
    [note] = session.all(Note)
    assert note.name == "worker-memory-not-measured"
    assert "PermissionError: smaps_rollup" in note.message
