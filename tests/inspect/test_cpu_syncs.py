"""What counts as a host sync on a GPU, seen on a CPU: one snippet each."""

import pytest
import torch

from lightning_gpuprof.inspect.cpu_syncs import CpuSyncDetector

DEVICE = torch.device("cpu")
CHOSEN = "cpu"


@pytest.fixture
def seen():
    """Return what a function that is given a tensor of the device makes the watch report."""

    def watch(function, **options):
        found = []
        watch = CpuSyncDetector(found.append, **options)
        values = torch.arange(4.0)
        watch.start()
        try:
            function(values)
        finally:
            watch.stop()
        return found

    return watch


SYNCS = {
    "item": lambda x: x.sum().item(),
    "float": lambda x: float(x[0]),
    "bool": lambda x: bool((x > 1).any()),
    "tolist": lambda x: x.tolist(),
    "numpy": lambda x: x.numpy(),
    "cpu": lambda x: x.cpu(),
    "format": lambda x: f"{x.sum():.2f}",
    "print": lambda x: repr(x),
    "nonzero": lambda x: x.nonzero(),
    "where": lambda x: torch.where(x > 1),
    "unique": lambda x: torch.unique(x),
    "masked_select": lambda x: x.masked_select(x > 1),
    "boolean mask": lambda x: x[x > 1],
    "repeat_interleave": lambda x: torch.repeat_interleave(x, x.long()),
    "equal": lambda x: torch.equal(x, x + 1),
    "pageable copy": lambda x: torch.ones(4).to(DEVICE),
}
QUIET = {
    "a copy that is asynchronous": lambda x: torch.ones(4).to(DEVICE, non_blocking=True),
    "a tensor made on the device": lambda x: torch.zeros(4, device=DEVICE) + x,
    "a tensor that is there already": lambda x: x.to(DEVICE),
    "a device chosen by a variable": lambda x: x.to(CHOSEN),
    "reading a value of the host": lambda x: torch.tensor([1, 2]).max().item(),
    "filling by a mask": lambda x: x.masked_fill(x > 1, 0.0),
    "setting one value by a mask": lambda x: x.clone().__setitem__(x > 1, 0.0),
    "choosing by a mask": lambda x: torch.where(x > 1, x, 0.0),
    "indexing by numbers": lambda x: x[torch.zeros(2, dtype=torch.long)],
    "a size": lambda x: int(x.shape[0]) + x.numel() + len(x),
}


@pytest.mark.parametrize("name", SYNCS)
def test_a_sync_is_reported_once_under_its_name(seen, name):
    assert seen(SYNCS[name]) == [name]


@pytest.mark.parametrize("name", QUIET)
def test_no_sync_is_reported_for(seen, name):
    assert seen(QUIET[name]) == []


def test_a_copy_to_the_host_is_one_sync_and_reading_it_none(seen):
    def read(x):
        host = x.to("cpu")
        assert host.tolist() == [0, 1, 2, 3]
        return host.sum().item()

    assert seen(read) == ["cpu"]


def test_what_is_fetched_lies_on_the_host_until_it_is_moved(seen):
    fetching = [True]

    def fetch(x):
        row = x * 2
        row.max().item()
        row[row > 1].sum()
        fetching[0] = False
        row = row.to(DEVICE, non_blocking=True)
        row.max().item()

    assert seen(fetch, fetching=lambda: fetching[0]) == ["item"]


def test_counters_of_an_optimizer_are_on_the_host(seen):
    step = torch.tensor(3.0)
    assert seen(lambda x: step.item(), on_host=[step]) == []
    assert seen(lambda x: step.item()) == ["item"]


def test_values_are_those_without_the_watch(seen):
    found = []
    seen(lambda x: found.append((x.cpu().tolist(), x[x > 1].tolist(), float(x.sum()))))
    assert found == [([0, 1, 2, 3], [2, 3], 6.0)]
