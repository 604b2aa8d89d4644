from types import SimpleNamespace

import pytest
import torch

from lightning_gpuprof.recorders.scalars import transfer
from lightning_gpuprof.recorders.scalars.transfer import HostCopy, with_room

CUDA = torch.device("cuda")


class OnDevice(torch.Tensor):
    """Says that it lies on a device."""

    device = CUDA


def on_device(values, room):
    return HostCopy(values.as_subclass(OnDevice), room=room)


@pytest.fixture
def allocated(monkeypatch):
    """Count allocations of pinned memory, on a machine without a device."""
    counts = []

    def pinned(count, dtype):
        counts.append(count)
        return torch.empty(count, dtype=dtype)

    event = SimpleNamespace(record=lambda _: None, synchronize=lambda: None, query=lambda: True)
    monkeypatch.setattr(transfer, "pinned", pinned)
    monkeypatch.setattr(torch.cuda, "Event", lambda: event)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda _: None)
    return counts


def test_every_copy_asks_for_the_size_that_is_there(allocated):
    copies = [on_device(torch.arange(count).double(), 500) for count in (3, 500, 0)]

    assert allocated == [500, 500, 500]
    assert [len(copy.result()) for copy in copies] == [3, 500, 0]
    assert copies[0].result().tolist() == [0.0, 1.0, 2.0]


def test_without_a_device_nothing_is_pinned(allocated):
    send = with_room(500, torch.device("cpu"))

    assert send(torch.ones(2)).result().tolist() == [1.0, 1.0]
    assert allocated == []
