"""`LIGHTNING_GPUPROF=off`: the callbacks stay in the program and do nothing."""

import pickle
from pathlib import Path

import pytest
import torch
from lightning.pytorch import Trainer, seed_everything
from lightning.pytorch.callbacks import Callback, TQDMProgressBar
from lightning.pytorch.demos.boring_classes import BoringModel
from lightning.pytorch.profilers import SimpleProfiler

import lightning_gpuprof
from lightning_gpuprof import (
    BatchSizeAdvisor,
    DeferredLoss,
    DeferredProgressBar,
    DeviceMonitor,
    GpuProfCallback,
    MemorySnapshot,
    ModuleTimer,
    PhaseTimer,
    ProfilerSchedule,
    profile_model,
)
from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.runtime.switch import is_off

MAKERS = {
    "GpuProfCallback": GpuProfCallback,
    "PhaseTimer": PhaseTimer,
    "ProfilerSchedule": lambda: ProfilerSchedule(wait=1, warmup=1, active=1),
    "DeferredLoss": DeferredLoss,
    "DeviceMonitor": DeviceMonitor,
    "BatchSizeAdvisor": BatchSizeAdvisor,
    "MemorySnapshot": MemorySnapshot,
    "ModuleTimer": lambda: ModuleTimer(["layer"]),
    "DeferredProgressBar": DeferredProgressBar,
}


def trained(folder, callbacks, profiler=None):
    """Return what a short fit and a validation leave behind."""
    seed_everything(3)
    model = BoringModel()
    trainer = Trainer(
        default_root_dir=folder,
        max_steps=12,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=any(isinstance(one, TQDMProgressBar) for one in callbacks),
        enable_model_summary=False,
        callbacks=callbacks,
        profiler=profiler,
    )
    trainer.fit(model)
    trainer.validate(model, verbose=False)
    weights = [parameter.detach().clone() for parameter in model.parameters()]
    return weights, torch.get_rng_state(), sorted(Path(folder).rglob("*"))


def test_every_callback_of_the_package_is_tried_here():
    public = {name: getattr(lightning_gpuprof, name) for name in lightning_gpuprof.__all__}
    callbacks = {
        name
        for name, value in public.items()
        if isinstance(value, type) and issubclass(value, Callback)
    }
    assert callbacks == set(MAKERS)


@pytest.mark.parametrize("name", MAKERS)
def test_training_is_the_same_and_nothing_is_written(tmp_path, monkeypatch, caplog, name):
    monkeypatch.chdir(tmp_path)
    plain = trained(tmp_path, [])
    monkeypatch.setenv("LIGHTNING_GPUPROF", "off")
    callback, profiler = MAKERS[name](), SimpleProfiler()
    weights, random_state, files = trained(tmp_path, [callback], profiler)
    assert all(map(torch.equal, weights, plain[0]))
    assert torch.equal(random_state, plain[1])
    assert files == plain[2] == []
    assert "PROFILE" not in caplog.text
    if name != "DeferredProgressBar":  # which stays a progress bar
        assert [action for action in profiler.recorded_durations if name in action] == []
    pickle.dumps(callback)


def test_the_progress_bar_is_lightnings_own(tmp_path, monkeypatch):
    monkeypatch.setenv("LIGHTNING_GPUPROF", "off")
    bar = DeferredProgressBar(refresh_rate=1)
    trained(tmp_path, [bar])
    assert bar._shown == {}
    assert bar._latest == {}


@pytest.mark.parametrize(
    ("value", "expected"), [("off", True), (" OFF ", True), ("0", True), ("on", False), ("", False)]
)
def test_which_values_switch_off(monkeypatch, value, expected):
    monkeypatch.setenv("LIGHTNING_GPUPROF", value)
    assert is_off() is expected


def test_what_cannot_measure_says_why(monkeypatch):
    monkeypatch.setenv("LIGHTNING_GPUPROF", "off")
    with pytest.raises(ConfigError, match="LIGHTNING_GPUPROF=off switches this package off"):
        profile_model(torch.nn.Linear(2, 2), [torch.ones(1, 2)])
