"""A GPU that a run on the CPU leaves unused, with a fake of what the machine has."""

import pytest
import torch

from lightning_gpuprof.runtime import run_start


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
def test_a_gpu_that_nobody_hid_is_told(machine, says, monkeypatch, tmp_path):
    driver = tmp_path / "nvidia0"
    if machine.get("driver", True):
        driver.touch()
    monkeypatch.setattr(run_start, "DRIVER", str(driver))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: int(machine.get("seen", False)))
    monkeypatch.setattr(torch.version, "cuda", machine.get("built", "12.8"))
    for name in run_start._VISIBLE_DEVICES:
        monkeypatch.delenv(name, raising=False)
    if (shown := machine.get("CUDA_VISIBLE_DEVICES")) is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", shown)
    assert run_start.gpu_left_unused() == says
