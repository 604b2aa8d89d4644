"""Know why a PyTorch Lightning training run is slow: one callback in, one PROFILE tab out.

Public names load on first use (PEP 562), so that importing this package costs nothing:
TensorBoard imports every installed plugin when it starts.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_PUBLIC = {
    "GpuProfCallback": "lightning_gpuprof.callbacks.gpuprof",
    "ab_test": "lightning_gpuprof.probes.ab_test",
    "benchmark_latency": "lightning_gpuprof.probes.latency",
}
"""Each public name and the module that defines it."""

__all__ = ["GpuProfCallback", "__version__", "ab_test", "benchmark_latency"]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_PUBLIC[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_PUBLIC])
