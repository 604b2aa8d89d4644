"""Typed settings of the Trainer and facts about the model, from a run's recorded metadata.

The metadata itself (`RunStart.trainer`, `RunStart.model`) holds whatever the version of Lightning
and the model had, and is shown as it is. Analyses and rules read this view of it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from lightning_gpuprof.records.schema import RunStart

ValueType = TypeVar("ValueType")


@dataclass(frozen=True)
class OptimizerFacts:
    """An optimizer of a run.

    Args:
        name: The class.
        package: The package whose code updates the weights; None in records without it.
        groups: The number of parameter groups.
        fused: Whether the fused implementation was requested; None if torch chooses.
        foreach: The same for the implementation for lists of tensors.
        momentum: Whether there is momentum.
        weight_decay: Whether there is weight decay.
    """

    name: str
    package: str | None = None
    groups: int = 1
    fused: bool | None = None
    foreach: bool | None = None
    momentum: bool = False
    weight_decay: bool = False


@dataclass(frozen=True)
class Settings:
    """Settings of the Trainer and facts about the model; None or empty if not recorded.

    Args:
        strategy: The class of the strategy.
        precision: As the Trainer names it, such as "bf16-mixed".
        max_steps: The number of steps after which training ends; None if it is not limited.
        limit_train_batches: A number of batches, or a float: their share of an epoch.
        num_devices: The number of devices, and therefore of ranks, on a machine.
        loggers: The classes of the loggers.
        profiler: The class of `trainer.profiler`, which may do nothing.
        call_hooks: What Python calls at every call of a function, such as cProfile's `Profile`.
        finds_unused: Whether DDP looks for parameters without a gradient in each step.
        children: The names of the model's first parts with weights.
        parameter_bytes: The size of all parameters.
        dtypes: The number of parameter tensors by type, such as "float32".
        default_dtype: torch's default type.
        sparse_gradients: Whether some embedding has sparse gradients.
        compiled: Whether some part of the model is compiled.
    """

    strategy: str = ""
    precision: str | None = None
    log_every_n_steps: int = 0
    max_steps: int | None = None
    limit_train_batches: int | float | None = None
    accumulate_grad_batches: int = 1
    num_devices: int | None = None
    loggers: tuple[str, ...] = ()
    profiler: str | None = None
    call_hooks: tuple[str, ...] = ()
    detect_anomaly: bool = False
    gradient_clip_val: float | None = None
    finds_unused: bool = False
    children: tuple[str, ...] = ()
    parameter_bytes: int = 0
    dtypes: Mapping[str, int] = field(default_factory=dict)
    default_dtype: str | None = None
    optimizers: tuple[OptimizerFacts, ...] = ()
    sparse_gradients: bool = False
    compiled: bool = False


def settings_of(start: RunStart) -> Settings:
    """Return the settings of a run; a value of an unexpected type counts as not recorded."""
    trainer, model = start.trainer, start.model
    dtypes = _value(model, "dtypes", dict) or {}
    optimizers = _value(model, "optimizers", list) or []
    most = _value(trainer, "max_steps", int)
    limit, clip = trainer.get("limit_train_batches"), trainer.get("gradient_clip_val")
    return Settings(
        strategy=_value(trainer, "strategy", str) or "",
        precision=_value(trainer, "precision", str),
        log_every_n_steps=_value(trainer, "log_every_n_steps", int) or 0,
        max_steps=None if most is None or most < 0 else most,
        limit_train_batches=limit if isinstance(limit, int | float) else None,
        accumulate_grad_batches=_value(trainer, "accumulate_grad_batches", int) or 1,
        num_devices=_value(trainer, "num_devices", int),
        loggers=_names(trainer, "loggers"),
        profiler=_value(trainer, "profiler", str),
        call_hooks=_names(trainer, "call_hooks"),
        detect_anomaly=bool(trainer.get("detect_anomaly")),
        gradient_clip_val=clip if isinstance(clip, int | float) else None,
        finds_unused=trainer.get("find_unused_parameters") is True,
        children=_names(model, "children"),
        parameter_bytes=_value(model, "parameter_bytes", int) or 0,
        dtypes={name: count for name, count in dtypes.items() if isinstance(count, int)},
        default_dtype=_value(model, "default_dtype", str),
        optimizers=tuple(_optimizer(facts) for facts in optimizers if isinstance(facts, dict)),
        sparse_gradients=bool(model.get("sparse_gradients")),
        compiled=bool(model.get("compiled")),
    )


def _optimizer(facts: Mapping[str, Any]) -> OptimizerFacts:
    return OptimizerFacts(
        name=str(facts.get("class", "")),
        package=_value(facts, "package", str),
        groups=_value(facts, "groups", int) or 1,
        fused=_value(facts, "fused", bool),
        foreach=_value(facts, "foreach", bool),
        momentum=bool(facts.get("momentum")),
        weight_decay=bool(facts.get("weight_decay")),
    )


def _names(metadata: Mapping[str, Any], key: str) -> tuple[str, ...]:
    return tuple(map(str, _value(metadata, key, list) or ()))


def _value(metadata: Mapping[str, Any], key: str, kind: type[ValueType]) -> ValueType | None:
    value = metadata.get(key)
    return value if isinstance(value, kind) else None
