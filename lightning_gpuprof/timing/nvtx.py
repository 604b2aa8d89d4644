"""Phases as NVTX ranges (rocTX on AMD), which profilers outside of the process show."""

from collections.abc import Callable
from typing import Any

import torch

from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.timing.phase_clock import Decorator, Region
from lightning_gpuprof.timing.regions import Context

_cuda: Any = torch.cuda


class _Ranged(Decorator):
    def __init__(self, region: Context, name: str) -> None:
        self._region, self._name = region, name

    def __enter__(self) -> Any:
        _cuda.nvtx.range_push(self._name)
        return self._region.__enter__()

    def __exit__(self, *raised: Any) -> None:
        self._region.__exit__(*raised)
        _cuda.nvtx.range_pop()


def ranges(watch: Callable[[Region], Context] | None, region: Region) -> Context:
    """Return a region, with the device's marks that `watch` puts around it, as a range."""
    context = region if watch is None else watch(region)
    phase = region.clock.slots[region.slot].phase
    return context if phase is Phase.OTHER else _Ranged(context, phase.value)


def check_nvtx() -> None:
    """Raise ConfigError where this torch has no NVTX."""
    try:
        _cuda.nvtx.range_push("lightning_gpuprof")
        _cuda.nvtx.range_pop()
    except RuntimeError as error:
        said = "nvtx=True needs a torch that was built for CUDA or ROCm. Leave it out here."
        raise ConfigError(said) from error
