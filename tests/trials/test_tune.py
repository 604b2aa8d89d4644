import sys

import pytest

from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.trials import tune as tuning
from lightning_gpuprof.trials.tune import TunePoint, tune


def test_sizes_above_the_first_that_runs_out_of_memory_are_not_run(monkeypatch):
    asked = []

    def measured(request):
        asked.append(request)
        size = request["batch_size"]
        return TunePoint(size, "cuda", error="out of memory") if size > 16 else TunePoint(size, "x")

    monkeypatch.setattr(tuning, "_measured", measured)
    points = tune("net:make", [64, 8, 32, 16, 8], steps=3, precision="bf16-mixed")
    assert [request["batch_size"] for request in asked] == [8, 16, 32]
    assert (asked[0]["model"], asked[0]["precision"]) == ("net:make", "bf16-mixed")
    assert points[-1] == TunePoint(32, "cuda", error="out of memory")


def test_throughput_is_samples_over_the_median_step():
    assert TunePoint(8, step_ns=10**9 // 4).samples_per_s == 32
    assert TunePoint(8, error="killed").samples_per_s is None


def test_a_child_that_is_killed_is_a_point_with_an_error(monkeypatch):
    killed = "import os; os.kill(os.getpid(), 9)"
    monkeypatch.setattr(tuning, "CHILD", [sys.executable, "-c", killed])
    assert tune("m:f", [8, 16]) == [TunePoint(8, error="the process was killed by signal 9")]


def test_no_steps_are_refused():
    with pytest.raises(ConfigError, match="would measure nothing"):
        tune("m:f", steps=0)
