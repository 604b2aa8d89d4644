"""Differences between two runs beside time: machine, versions, settings."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from lightning_gpuprof.records.schema import RunStart

_VERSIONS = ("python", "torch", "lightning", "cuda", "hip")
_TRAINER = ("precision", "strategy", "accumulate_grad_batches", "num_devices", "detect_anomaly")
_TORCH = (
    *("cudnn_benchmark", "cudnn_deterministic", "cudnn_allow_tf32", "cudnn_enabled"),
    *("mkldnn_enabled", "float32_matmul_precision", "deterministic_algorithms"),
)
_LOADER = ("num_workers", "batch_size", "pin_memory", "persistent_workers", "prefetch_factor")


@dataclass(frozen=True)
class Difference:
    """A fact that is not the same; `kind` is machine, versions, model or settings."""

    kind: str
    name: str
    base: Any
    new: Any


def differences(base: RunStart, new: RunStart) -> tuple[Difference, ...]:
    """List the facts on which two runs differ; what either does not know is left out."""
    facts = (Difference(*fact) for fact in _facts(base, new))
    return tuple(one for one in facts if None not in (one.base, one.new) and one.base != one.new)


def _facts(base: RunStart, new: RunStart) -> Iterator[tuple[str, str, Any, Any]]:
    yield "machine", "host", base.host or None, new.host or None
    yield "machine", "cpu_count", base.cpu_count, new.cpu_count
    for name in ("type", "name", "total_bytes"):
        old, now = (getattr(run.device, name, None) for run in (base, new))
        yield "machine", f"device {name}", old, now
    yield "settings", "world_size", base.world_size, new.world_size
    for name in _VERSIONS:
        yield "versions", name, base.versions.get(name), new.versions.get(name)
    yield "model", "class", base.model.get("class"), new.model.get("class")
    ranks, now = ((run.world_size, run.trainer.get("strategy")) for run in (base, new))
    if ranks == now:  # a rank counts its own parameters: of a sharded model a part
        yield "model", "parameters", base.model.get("parameters"), new.model.get("parameters")
    yield "settings", "compiled", base.model.get("compiled"), new.model.get("compiled")
    for name in _TRAINER:
        yield "settings", name, base.trainer.get(name), new.trainer.get(name)
    for name in _TORCH:
        yield "settings", name, base.torch_settings.get(name), new.torch_settings.get(name)
    for name in _LOADER:
        yield "settings", name, getattr(base.loader, name, None), getattr(new.loader, name, None)
