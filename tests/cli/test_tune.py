import json

import pytest

from lightning_gpuprof.cli import main
from lightning_gpuprof.trials import measure, tune
from lightning_gpuprof.trials.tune import TunePoint

MODEL = """
import torch
from torch import nn


def make():
    print("chatter on stdout")
    model = nn.Linear(64, 1)
    return nn.Sequential(model, Mean()), lambda size: torch.randn(size, 64)


class Mean(nn.Module):
    def forward(self, x):
        return x.square().mean()
"""
SHORT = ["--steps", "3"]


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "net.py"
    path.write_text(MODEL)
    return f"{path}:make"


@pytest.fixture
def inline(monkeypatch):
    """Measure in this process: a child's import of torch takes seconds."""
    monkeypatch.setattr(tune, "_measured", lambda request: measure.measure(**request))


def test_each_size_is_trained_and_timed_in_a_process_of_its_own(model, capfd):
    assert main(["tune", "--model", model, "--batch-sizes", "4", "--json", *SHORT]) == 0
    printed, said = capfd.readouterr()
    assert "chatter on stdout" in said
    [point] = json.loads(printed)["points"]
    assert point["step_ns"] > 0
    assert point["samples_per_s"] == pytest.approx(4e9 / point["step_ns"])
    assert point["batch_size"] == 4


def test_on_a_cpu_memory_reads_not_measured(model, inline, capfd, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert main(["tune", "--model", model, "--batch-sizes", "2,4", *SHORT]) == 0
    assert capfd.readouterr().out.count("not measured") == 2


def test_memory_and_a_size_that_does_not_fit_are_shown(monkeypatch, capfd):
    def gpu(request):
        size, gib = request["batch_size"], 2**30
        if size > 16:
            return TunePoint(size, "H", error="out of memory: CUDA is full")
        return TunePoint(size, "H", 10**7, (1 + size) * gib, (1 + size) * gib, 40 * gib)

    monkeypatch.setattr(tune, "_measured", gpu)
    assert main(["tune", "--model", "m:f", "--batch-sizes", "8,16,64"]) == 0
    printed = capfd.readouterr().out
    assert "Measured on H" in printed
    rows = [line.split() for line in printed.splitlines()]
    assert ["16", "10.0", "ms", "1,600", "17.0", "GiB", "42.5%"] in rows
    assert ["64", "did", "not", "run"] in rows
    assert "- 64: out of memory: CUDA is full" in printed


def test_where_no_size_runs_the_status_is_one(monkeypatch):
    monkeypatch.setattr(tune, "_measured", lambda request: TunePoint(8, error="killed"))
    assert main(["tune", "--model", "m:f"]) == 1


def test_a_model_that_cannot_be_used_is_said_by_the_child(capfd):
    assert main(["tune", "--model", "absent.py:make"]) == 2
    said = capfd.readouterr().err
    assert "there is no file absent.py" in said
    assert "absent.py:make could not be measured" in said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--batch-sizes", "8,x"], "invalid whole_numbers value: '8,x'"),
        (["--batch-sizes", "8\u00b2"], "invalid whole_numbers value"),
        (["--batch-sizes", "0"], "give sizes of 1 or more"),
        (["--steps", "0"], "would measure nothing"),
    ],
)
def test_a_bad_argument_is_said(arguments, message, model, inline, capfd):
    try:
        status = main(["tune", "--model", model, *arguments])
    except SystemExit as refused:
        status = refused.code
    assert status == 2
    assert message in capfd.readouterr().err
