import torch
from lightning.pytorch.demos.boring_classes import BoringModel

from lightning_gpuprof.callbacks.phase_timer import PhaseTimer
from lightning_gpuprof.session.run_facts import _torch_settings


def test_torchs_own_switches_are_recorded_as_training_has_them(session_of, monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", False)
    timer = PhaseTimer(console=False)
    start = session_of(BoringModel(), timer, benchmark=True, limit_train_batches=2).start
    assert start.torch_settings["cudnn_benchmark"] is True
    assert start.torch_settings["cudnn_deterministic"] is False
    assert start.torch_settings["cudnn_allow_tf32"] is torch.backends.cudnn.allow_tf32
    assert start.torch_settings["float32_matmul_precision"] == "highest"
    assert start.torch_settings["deterministic_algorithms"] is False


def test_a_switch_that_torch_cannot_tell_is_absent(monkeypatch):
    def raises():
        raise RuntimeError("a mix of the legacy and new APIs")

    monkeypatch.setattr(torch, "get_float32_matmul_precision", raises)
    found = _torch_settings()
    assert "float32_matmul_precision" not in found
    assert "cudnn_benchmark" in found
