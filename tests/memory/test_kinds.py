import pytest
import torch
from torch import nn

from lightning_gpuprof.memory.kinds import kind_bytes

CPU = torch.device("cpu")


def trained(model, optimizer):
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    return kind_bytes(model, [optimizer], CPU)


def test_parameters_gradients_and_optimizer_state_are_exact():
    model = nn.Linear(4, 8)
    found = trained(model, torch.optim.AdamW(model.parameters()))
    # Two moments per parameter, and a counter of 4 bytes for each of the two tensors.
    assert found == {"parameters": 160, "gradients": 160, "optimizer_state": 2 * 160 + 2 * 4}


def test_tied_weights_count_once_and_buffers_count():
    model = nn.Sequential(nn.Linear(4, 4, bias=False), nn.BatchNorm1d(4), nn.Linear(4, 4))
    model[2].weight = model[0].weight
    found = kind_bytes(model, [], CPU)
    assert found["parameters"] == 64 + 16 + (16 + 16 + 16 + 16 + 8)
    assert found["gradients"] == found["optimizer_state"] == 0


def test_what_lies_on_another_device_does_not_count():
    assert kind_bytes(nn.Linear(4, 4), [], torch.device("cuda"))["parameters"] == 0


def test_of_sharded_parameters_this_ranks_share_counts(mesh):
    fsdp = pytest.importorskip("torch.distributed.fsdp")
    if not hasattr(fsdp, "fully_shard"):
        pytest.skip("this torch has no fully_shard (2.6 on)")
    model = nn.Sequential(nn.Linear(4, 8, bias=False), nn.Linear(8, 4, bias=False))
    for layer in model:
        fsdp.fully_shard(layer, mesh=mesh)
    found = trained(model, torch.optim.AdamW(model.parameters()))
    # Of 2 * 128 bytes a half, as of the two moments; the counters of 4 bytes are whole.
    assert found == {"parameters": 128, "gradients": 128, "optimizer_state": 2 * 128 + 2 * 4}
