"""Finds the metrics of torchmetrics in a program, and reads what they keep.

Names in torchmetrics 0.7 to 1.9, which Lightning 2.4 to 2.6 work with: the class `Metric`, and
its private `_update_count` and `_defaults`, which has an empty list for each state that keeps all
values. A metric without them is passed over. Metrics of a `MetricCollection` may share their
states.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from lightning_gpuprof.adapters.lightning import is_kind

METRIC = "Metric"
STATES, UPDATE_COUNT, THRESHOLDS = "_defaults", "_update_count", "thresholds"
"""Attributes of a metric: its states with their first values; how often it was updated since the
last reset; and, of metrics of a curve, the fixed thresholds that take the place of all values."""


@dataclass(frozen=True)
class NamedMetric:
    """A metric with states that keep all values: the path of attributes to it, and itself."""

    name: str
    metric: Any

    @property
    def lists(self) -> list[list[Any]]:
        """The states that keep all values."""
        values = [getattr(self.metric, name, None) for name in list_states(self.metric)]
        return [value for value in values if isinstance(value, list)]

    @property
    def updates(self) -> int:
        """How often the metric was updated since the last reset."""
        return int(getattr(self.metric, UPDATE_COUNT, 0))

    @property
    def lacks_thresholds(self) -> bool:
        """Whether the metric could keep counts of a fixed size, and keeps all values instead."""
        return getattr(self.metric, THRESHOLDS, 0) is None


def list_states(metric: Any) -> list[str]:
    """Return the names of the states in which a metric keeps all values."""
    states = getattr(metric, STATES, None)
    return [name for name, first in (states or {}).items() if isinstance(first, list)]


def keeping_metrics(trainer: Any) -> list[NamedMetric]:
    """Return the metrics of a Trainer's module and callbacks that keep all values, each once."""
    owners = [("self", trainer.lightning_module)]
    owners += [(type(callback).__name__, callback) for callback in trainer.callbacks]
    unique: dict[int, NamedMetric] = {}
    for owner, holder in owners:
        for name, metric in _metrics(holder):
            if list_states(metric):
                unique.setdefault(id(metric), NamedMetric(f"{owner}.{name}", metric))
    return list(unique.values())


def stop_metrics(model: Any) -> None:
    """Let the metrics among a model's submodules neither read nor keep what they are given.

    Their results are zeros.
    """
    for part in model.modules():
        if is_kind(part, METRIC):
            vars(part).update(dict.fromkeys(("forward", "update", "compute"), _zero))
        elif is_kind(part, "MetricCollection"):
            vars(part)["update"] = _zero  # its forward and compute call those of the metrics


def _zero(*args: Any, **options: Any) -> torch.Tensor:
    return torch.zeros(())


def _metrics(holder: Any) -> Iterator[tuple[str, Any]]:
    """Yield the metrics among the submodules and attributes of an object, with their paths."""
    named_modules = getattr(holder, "named_modules", None)
    if named_modules is not None:
        yield from ((name, part) for name, part in named_modules() if is_kind(part, METRIC))
    for name, value in getattr(holder, "__dict__", {}).items():
        if isinstance(value, dict) and not name.startswith("_"):
            parts = [(f"{name}[{key!r}]", part) for key, part in value.items()]
        elif isinstance(value, list | tuple):
            parts = [(f"{name}[{index}]", part) for index, part in enumerate(value)]
        else:
            parts = [(name, value)]
        for path, part in parts:
            if is_kind(part, METRIC):
                yield path, part
            elif is_kind(part, "MetricCollection"):
                yield from ((f"{path}[{key!r}]", metric) for key, metric in part.items())
