"""Records what metrics keep of every batch, and whether anything resets them."""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace
from torch import Tensor
from typing_extensions import override

from lightning_gpuprof.adapters.metrics import NamedMetric, keeping_metrics
from lightning_gpuprof.recorders.recorder import Recorder
from lightning_gpuprof.records.facts import MetricState, MetricStates
from lightning_gpuprof.runtime.guard import guarded
from lightning_gpuprof.runtime.hooks import HookDispatcher, PeriodicCalls
from lightning_gpuprof.tensors import array_bytes

WINDOW = 50
"""States are read once in so many batches."""
MIN_BYTES = 1 << 20
"""Smaller states are read but not recorded."""


class MetricStatesRecorder(Recorder):
    """Records the size of the states in which metrics of torchmetrics keep all values.

    Such are the metrics of curves and rankings, such as AUROC without `thresholds`. Nothing is
    read from a device.

    Costs: a walk over the modules once, and 5 us per such metric in one batch of 50. Nothing
        without such metrics.
    Touches: nothing. It reads how often a metric was updated, and the sizes of its states.
    When: the first batch, one batch in 50, and the end of training.
    """

    def __init__(self) -> None:
        self._metrics: list[NamedMetric] = []
        self._states: dict[str, MetricState] = {}
        self._recorded_bytes = 0
        self._hooks: HookDispatcher | None = None
        self._calls: PeriodicCalls | None = None

    @override
    def on_train_start(self, trainer: Any, hooks: HookDispatcher) -> None:
        self.release()
        self._states, self._recorded_bytes = {}, 0
        self._hooks = hooks

    @override
    def on_first_batch_end(self, trainer: Any, outputs: Any, batch: Any) -> None:
        self._metrics = keeping_metrics(trainer)
        if self._metrics and self._hooks is not None:
            self._calls = self._hooks.periodic
            self._calls.add(self._read, WINDOW)

    @override
    def on_train_end(self, trainer: Any) -> None:
        self._update()
        if self._states:
            self._write()
        self.release()

    @guarded
    def _read(self) -> None:
        """Read all states, and record them if they are twice as large as those recorded last."""
        self._update()
        kept_bytes = sum(state.num_bytes for state in self._states.values())
        if kept_bytes >= max(MIN_BYTES, 2 * self._recorded_bytes):
            self._recorded_bytes = kept_bytes
            self._write()

    def _update(self) -> None:
        for named in self._metrics:
            before, updates = self._states.get(named.name), named.updates
            is_reset = before is not None and (before.was_reset or updates < before.updates)
            if before is not None and updates <= before.updates:
                state = before
            else:
                state = _state_of(named, updates)
            self._states[named.name] = replace(state, was_reset=is_reset)

    def _write(self) -> None:
        if self._context is not None:
            states = sorted(self._states.values(), key=lambda state: -state.num_bytes)
            self._context.write(MetricStates(tuple(states)))

    @override
    def release(self) -> None:
        calls, self._calls = self._calls, None
        if calls is not None:
            calls.drop(self._read)
        self._metrics, self._hooks = [], None


def _state_of(named: NamedMetric, updates: int) -> MetricState:
    lists = named.lists
    last = [values[-1] for values in lists if values]
    return MetricState(
        name=named.name,
        metric=type(named.metric).__name__,
        updates=updates,
        num_bytes=sum(_bytes_of(values) for values in lists),
        was_reset=False,
        holds_graph=any(isinstance(v, Tensor) and v.grad_fn is not None for v in last),
        lacks_thresholds=named.lacks_thresholds,
    )


def _bytes_of(values: Sequence[Any]) -> int:
    """Return the bytes of a list's tensors, which are taken to be like its first and its last."""
    if not values:
        return 0
    return len(values) * (array_bytes(values[0]) + array_bytes(values[-1])) // 2
