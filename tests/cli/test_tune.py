import json
import sys

import pytest

from lightning_gpuprof.cli import main
from lightning_gpuprof.trials import child, tune
from lightning_gpuprof.trials.messages import TunePoint
from lightning_gpuprof.trials.serve import answer

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
SHORT = ["--steps", "3", "--warmup", "1"]


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "net.py"
    path.write_text(MODEL)
    return f"{path}:make"


@pytest.fixture
def inline(monkeypatch):
    """Measure in this process: a child's import of torch takes seconds."""
    monkeypatch.setattr(tune, "ask", lambda request, kind: answer(request))


def test_each_size_is_trained_and_timed(model, inline, capfd):
    assert main(["tune", "--model", model, "--batch-sizes", "4", "--json", *SHORT]) == 0
    printed = capfd.readouterr().out
    document = json.loads(printed[printed.index("{") :])
    [point] = document["points"]
    assert point["step_ns"] > 0
    assert point["samples_per_s"] == pytest.approx(4e9 / point["step_ns"])
    assert point["device"] == "cpu"
    assert point["peak_allocated_bytes"] is document["memory"] is document["knee"] is None
    assert document["suggested_batch_size"] == 4


def test_on_a_cpu_memory_reads_not_measured(model, inline, capfd):
    assert main(["tune", "--model", model, "--batch-sizes", "2,4", "--device", "cpu", *SHORT]) == 0
    printed = capfd.readouterr().out
    assert printed.count("not measured") == 2
    assert "Suggested batch size:" in printed


def test_memory_and_a_size_that_does_not_fit_are_shown(monkeypatch, capfd):
    def gpu(request, kind):
        size, gib = request.batch_size, 2**30
        if size > 16:
            return TunePoint(batch_size=size, device="H", out_of_memory=True, error="CUDA is full")
        peak = (1 + size) * gib
        return TunePoint(
            batch_size=size,
            device="H",
            step_ns=10**7,
            peak_allocated_bytes=peak,
            peak_reserved_bytes=peak,
            resting_bytes=gib,
            others_bytes=0,
            total_bytes=40 * gib,
        )

    monkeypatch.setattr(tune, "ask", gpu)
    assert main(["tune", "--model", "m:f", "--batch-sizes", "8,16,64"]) == 0
    printed = capfd.readouterr().out
    assert "Measured on H" in printed
    rows = [line.split() for line in printed.splitlines()]
    assert ["16", "10.0", "ms", "1,600", "+100%", "17.0", "GiB", "42.5%"] in rows
    assert ["64", "out", "of", "memory"] in rows
    assert "- 64: CUDA is full" in printed
    # 1 GiB and 1 GiB per sample: 70 % of 40 GiB are 27 samples, and 24 is the multiple of 8.
    assert "Suggested batch size: 24" in printed


def test_a_child_that_is_killed_is_a_point_with_an_error(monkeypatch):
    killed = "import os; os.kill(os.getpid(), 9)"
    monkeypatch.setattr(child, "COMMAND", [sys.executable, "-c", killed])
    [point] = tune.tune("m:f", [8, 16]).points
    assert point.error == "the process was killed by signal 9"
    assert point.step_ns is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--batch-sizes", "8,x"], "'x' is not a whole number"),
        (["--batch-sizes", "8\u00b2"], "is not a whole number"),
        (["--batch-sizes", "0"], "give sizes of 1 or more"),
        (["--steps", "0"], "would measure nothing"),
        (["--device", "cuda"], "torch sees no GPU here"),
    ],
)
def test_a_bad_argument_is_said(arguments, message, model, inline, capfd, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    try:
        status = main(["tune", "--model", model, *arguments])
    except SystemExit as refused:
        status = refused.code
    assert status == 2
    assert message in capfd.readouterr().err
