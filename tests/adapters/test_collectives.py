"""The functions of torch in which ranks wait, and ranks' places in a mesh."""

from types import SimpleNamespace

import pytest
import torch
import torch.distributed._functional_collectives
import torch.distributed.fsdp

from lightning_gpuprof.adapters.collectives import mesh_place, waiting_functions


@pytest.mark.parametrize(
    ("on_device", "expected"),
    [
        (False, {"wait", "wait_tensor"}),
        (True, {"wait", "wait_tensor", "wait_for_unshard", "finalize_backward"}),
    ],
)
def test_the_names_are_those_of_the_installed_torch(on_device, expected):
    found = waiting_functions(torch.nn.Linear(1, 1), on_device=on_device)
    assert {name for _, name in found} == expected
    assert torch.distributed.Work in [owner for owner, _ in found]


def test_a_compiled_model_keeps_the_function_that_torch_would_trace():
    model = torch.nn.Sequential(torch.nn.Linear(1, 1))
    model[0].compile()
    assert [name for _, name in waiting_functions(model, on_device=False)] == ["wait"]


def test_a_rank_has_a_coordinate_on_each_axis_of_a_mesh_only():
    mesh = SimpleNamespace(
        mesh_dim_names=("data_parallel", "tensor_parallel"),
        get_local_rank={"data_parallel": 1, "tensor_parallel": 0}.get,
    )
    trainer = SimpleNamespace(strategy=SimpleNamespace(device_mesh=mesh))
    assert mesh_place(trainer) == {"data": 1, "tensor": 0}
    assert mesh_place(SimpleNamespace(strategy=SimpleNamespace())) == {}
