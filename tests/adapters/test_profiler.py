from lightning_gpuprof.adapters import profiler


def test_every_private_name_is_there_and_one_that_is_not_is_named(monkeypatch):
    assert profiler.missing() == []
    monkeypatch.delattr(profiler._autograd_profiler, "_prepare_profiler")
    assert profiler.missing() == ["_prepare_profiler"]
