import pytest

from lightning_gpuprof import BatchSizeAdvisor, DeferredLoss, DeviceMonitor, GpuProfCallback
from lightning_gpuprof.callbacks.line_sampler import LineSampler
from lightning_gpuprof.callbacks.memory_snapshot import MemorySnapshot
from lightning_gpuprof.callbacks.phase_timer import PhaseTimer
from lightning_gpuprof.callbacks.profiler_schedule import ProfilerSchedule
from lightning_gpuprof.errors import ConfigError

REFUSED = (
    (BatchSizeAdvisor, {"window": 0}, {"band": (0.8, 0.6)}, {"band": 0.8}),
    (DeferredLoss, {"metrics": ()}, {"metrics": "loss"}, {"window": 0}, {"log_every_n_steps": -1}),
    (DeviceMonitor, {"window": 0}),
    (GpuProfCallback, {"window": 0}, {"vram_low": 0.9}),
    (LineSampler, {"interval_s": 0}),
    (MemorySnapshot, {"steps": (4, 4)}, {"steps": 4}, {"on_oom": False}, {"keep": 0}),
    (MemorySnapshot, {"max_entries": 0}),
    (PhaseTimer, {"window": 0}, {"warmup": -1}),
    (ProfilerSchedule, {"ranks": 0}, {"ranks": "all"}, {"compiled": "fast"}),
)


@pytest.mark.parametrize(
    ("part", "options"), [(part, one) for part, *several in REFUSED for one in several]
)
def test_settings_that_cannot_work_are_named_with_what_to_pass(part, options):
    ((name, value),) = options.items()
    with pytest.raises(ConfigError) as refused:
        part(**options)
    assert f"{name}={value!r}" in str(refused.value)
    assert "Pass " in str(refused.value)
