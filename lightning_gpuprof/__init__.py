"""Know why a PyTorch Lightning training run is slow: one callback in, one PROFILE tab out.

Public names load on first use (PEP 562), so that importing this package costs nothing:
TensorBoard imports every installed plugin when it starts.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lightning_gpuprof.analysis.roofline.intensity import (
        arithmetic_intensity as arithmetic_intensity,
    )
    from lightning_gpuprof.callbacks.batch_size_advisor import BatchSizeAdvisor as BatchSizeAdvisor
    from lightning_gpuprof.callbacks.deferred_loss import DeferredLoss as DeferredLoss
    from lightning_gpuprof.callbacks.device_monitor import DeviceMonitor as DeviceMonitor
    from lightning_gpuprof.callbacks.gpuprof import GpuProfCallback as GpuProfCallback
    from lightning_gpuprof.callbacks.memory_snapshot import MemorySnapshot as MemorySnapshot
    from lightning_gpuprof.callbacks.module_timer import ModuleTimer as ModuleTimer
    from lightning_gpuprof.callbacks.phase_timer import PhaseTimer as PhaseTimer
    from lightning_gpuprof.callbacks.profiler_schedule import ProfilerSchedule as ProfilerSchedule
    from lightning_gpuprof.callbacks.progress_bar import DeferredProgressBar as DeferredProgressBar
    from lightning_gpuprof.callbacks.region import region as region
    from lightning_gpuprof.config import GpuProfConfig as GpuProfConfig
    from lightning_gpuprof.config import ProfileConfig as ProfileConfig
    from lightning_gpuprof.recorders.scalars.deferred import DeferredScalars as DeferredScalars
    from lightning_gpuprof.report.comparison import compare_runs as compare_runs
    from lightning_gpuprof.report.comparison import compare_several as compare_several
    from lightning_gpuprof.report.run_report import report as report
    from lightning_gpuprof.trials.ab_test import ab_test as ab_test
    from lightning_gpuprof.trials.latency import benchmark_latency as benchmark_latency
    from lightning_gpuprof.trials.plan import plan as plan
    from lightning_gpuprof.trials.profile_model import profile_model as profile_model
    from lightning_gpuprof.trials.try_changes import try_changes as try_changes

__version__ = "0.1.0"

_PUBLIC = {
    "BatchSizeAdvisor": "lightning_gpuprof.callbacks.batch_size_advisor",
    "DeferredLoss": "lightning_gpuprof.callbacks.deferred_loss",
    "DeferredProgressBar": "lightning_gpuprof.callbacks.progress_bar",
    "DeferredScalars": "lightning_gpuprof.recorders.scalars.deferred",
    "DeviceMonitor": "lightning_gpuprof.callbacks.device_monitor",
    "GpuProfCallback": "lightning_gpuprof.callbacks.gpuprof",
    "GpuProfConfig": "lightning_gpuprof.config",
    "MemorySnapshot": "lightning_gpuprof.callbacks.memory_snapshot",
    "ModuleTimer": "lightning_gpuprof.callbacks.module_timer",
    "PhaseTimer": "lightning_gpuprof.callbacks.phase_timer",
    "ProfileConfig": "lightning_gpuprof.config",
    "ProfilerSchedule": "lightning_gpuprof.callbacks.profiler_schedule",
    "arithmetic_intensity": "lightning_gpuprof.analysis.roofline.intensity",
    "ab_test": "lightning_gpuprof.trials.ab_test",
    "benchmark_latency": "lightning_gpuprof.trials.latency",
    "compare_runs": "lightning_gpuprof.report.comparison",
    "compare_several": "lightning_gpuprof.report.comparison",
    "plan": "lightning_gpuprof.trials.plan",
    "profile_model": "lightning_gpuprof.trials.profile_model",
    "region": "lightning_gpuprof.callbacks.region",
    "report": "lightning_gpuprof.report.run_report",
    "try_changes": "lightning_gpuprof.trials.try_changes",
}
"""Each public name and the module that defines it."""
__all__ = ["__version__", *_PUBLIC]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_PUBLIC[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_PUBLIC})
