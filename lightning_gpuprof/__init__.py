"""Know why a PyTorch Lightning training run is slow: one callback in, one PROFILE tab out.

Public names load on first use (PEP 562), so that importing this package costs nothing:
TensorBoard imports every installed plugin when it starts.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lightning_gpuprof.callbacks.batch_size_advisor import BatchSizeAdvisor
    from lightning_gpuprof.callbacks.deferred_loss import DeferredLoss
    from lightning_gpuprof.callbacks.device_monitor import DeviceMonitor
    from lightning_gpuprof.callbacks.gpuprof import GpuProfCallback
    from lightning_gpuprof.callbacks.memory_snapshot import MemorySnapshot
    from lightning_gpuprof.callbacks.module_timer import ModuleTimer
    from lightning_gpuprof.callbacks.phase_timer import PhaseTimer
    from lightning_gpuprof.callbacks.profiler_schedule import ProfilerSchedule
    from lightning_gpuprof.callbacks.progress_bar import DeferredProgressBar
    from lightning_gpuprof.callbacks.region import region
    from lightning_gpuprof.config import GpuProfConfig, ProfileConfig
    from lightning_gpuprof.recorders.scalars.deferred import DeferredScalars
    from lightning_gpuprof.trials.ab_test import ab_test
    from lightning_gpuprof.trials.latency import benchmark_latency
    from lightning_gpuprof.trials.profile_model import profile_model
    from lightning_gpuprof.trials.try_changes import try_changes
    from lightning_gpuprof.views.console.run_report import report
    from lightning_gpuprof.views.documents.compare import compare_runs, compare_several

__version__ = "0.1.0"

__all__ = [
    "BatchSizeAdvisor",
    "DeferredLoss",
    "DeferredProgressBar",
    "DeferredScalars",
    "DeviceMonitor",
    "GpuProfCallback",
    "GpuProfConfig",
    "MemorySnapshot",
    "ModuleTimer",
    "PhaseTimer",
    "ProfileConfig",
    "ProfilerSchedule",
    "__version__",
    "ab_test",
    "benchmark_latency",
    "compare_runs",
    "compare_several",
    "plan",
    "profile_model",
    "region",
    "report",
    "try_changes",
]

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
    "ab_test": "lightning_gpuprof.trials.ab_test",
    "benchmark_latency": "lightning_gpuprof.trials.latency",
    "compare_runs": "lightning_gpuprof.views.documents.compare",
    "compare_several": "lightning_gpuprof.views.documents.compare",
    "plan": "lightning_gpuprof.trials.plan",
    "profile_model": "lightning_gpuprof.trials.profile_model",
    "region": "lightning_gpuprof.callbacks.region",
    "report": "lightning_gpuprof.views.console.run_report",
    "try_changes": "lightning_gpuprof.trials.try_changes",
}
"""Each public name and the module that defines it."""


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_PUBLIC[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_PUBLIC})
