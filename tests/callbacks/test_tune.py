import pytest

from lightning_gpuprof import tune
from lightning_gpuprof.callbacks.tune import spec_of
from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.probes.batch_size.tune_types import TunePoint


def make():
    """Stand for a user's function at the top of a file."""


def test_each_size_is_asked_for_as_it_was_given(monkeypatch):
    asked = []

    def measured(request):
        asked.append(request)
        return TunePoint(batch_size=request.batch_size, device="cpu", step_ns=1_000)

    monkeypatch.setattr("lightning_gpuprof.callbacks.tune.measure_in_child", measured)
    tuned = tune(make, (4, 8), steps=3, precision="bf16-mixed")
    assert [(one.batch_size, one.steps, one.precision) for one in asked] == [
        (4, 3, "bf16-mixed"),
        (8, 3, "bf16-mixed"),
    ]
    assert asked[0].model == f"{__file__}:make"
    assert tuned.suggested == 8


def test_what_another_process_cannot_find_is_refused():
    with pytest.raises(ConfigError, match="cannot be found by another process"):
        spec_of(lambda: None)
    with pytest.raises(ConfigError, match="would measure nothing"):
        tune(make, steps=0)
