from types import SimpleNamespace

import pytest

from lightning_gpuprof.callbacks import line_sampler
from lightning_gpuprof.callbacks.line_sampler import LineSampler
from lightning_gpuprof.session.guard import is_disabled


def test_a_sample_that_fails_ends_the_thread_and_switches_the_sampler_off(monkeypatch):
    looks, records = [], []

    def fails(frame):
        looks.append(frame)
        raise ValueError("planted")

    monkeypatch.setattr(line_sampler, "where_is", fails)
    sampler = LineSampler(warmup=0)
    sampler._output = SimpleNamespace(step=3, write=records.append)
    with pytest.warns(RuntimeWarning, match="LineSampler failed and is off"):
        sampler._watch(SimpleNamespace(wait=lambda timeout: False))

    assert len(looks) == 1
    assert is_disabled(sampler)
    assert sampler._stop.is_set()
    assert [record.probe for record in records] == ["LineSampler"]
