"""A GPU that a run on the CPU leaves unused, with a fake of what the machine has."""

from types import SimpleNamespace

import pytest

from lightning_gpuprof.session.left_unused import DRIVER, gpu_left_unused


def looked(*, driver=True, seen=False, built="12.8", **environ):
    return gpu_left_unused(
        lambda path: driver and path == DRIVER,
        environ,
        SimpleNamespace(device_count=lambda: int(seen)),
        SimpleNamespace(cuda=built),
    )


@pytest.mark.parametrize(("machine", "says"), [
    ({"seen": True}, "not_used"),
    ({"built": None}, "not_built"),
    ({}, "not_found"),
    ({"driver": False}, None),
    ({"driver": False, "built": None}, None),
    ({"CUDA_VISIBLE_DEVICES": ""}, None),
    ({"built": None, "CUDA_VISIBLE_DEVICES": "-1"}, None),
    ({"CUDA_VISIBLE_DEVICES": "1"}, "not_found"),
])  # fmt: skip
def test_a_gpu_that_nobody_hid_is_told(machine, says):
    assert looked(**machine) == says
