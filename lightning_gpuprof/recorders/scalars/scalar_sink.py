"""Hands numbers that have arrived on to the run's records and the loggers."""

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from math import isfinite
from typing import Any

from lightning_gpuprof.adapters.lightning import logged_results
from lightning_gpuprof.recorders.scalars.scalar_log import ScalarBatch
from lightning_gpuprof.records.schema import Scalars
from lightning_gpuprof.runtime.context import RunContext
from lightning_gpuprof.runtime.safe_logger import SafeLogger

Columns = Mapping[str, Sequence[float | None]]
"""By name, a value of each step, None where it gave none."""


class ScalarSink:
    """Takes windows of numbers for as long as a fit lasts.

    A window's steps are pairs: the step that `self.log` would use, None while gradients accumulate,
    and the number that Lightning has divided the loss by. The loss is multiplied by it, which may
    change its last place.
    """

    def __init__(
        self,
        context: RunContext,
        *,
        loggers: Sequence[tuple[SafeLogger, int]],
        prefix: str,
        others: Callable[[], AbstractSet[str]],
    ) -> None:
        self._context = context
        self._loggers = loggers
        self._prefix = prefix
        self._others = others
        self._batches = 0
        self._open: list[ScalarBatch] = []
        self.first_batch = 0
        """Batches trained before the session's first, in a run that is resumed."""
        self._given: dict[str, bool] = {}

    @property
    def missing(self) -> list[str]:
        """The names that no step gave a value for."""
        return [name for name, given in self._given.items() if not given]

    def take(self, windows: Sequence[ScalarBatch]) -> None:
        """Hand windows on, oldest first, behind those that Ctrl-C came before."""
        self._open.extend(windows)
        if not self._open:
            return
        window = _joined(self._open)
        end = self._batches + len(window.steps)
        if losses := window.values.get("loss"):
            window.values["loss"] = [
                loss if loss is None else loss * parts
                for loss, (_, parts) in zip(losses, window.steps, strict=True)
            ]
        steps = list(range(self._batches, end))
        record = Scalars(
            steps=steps,
            first_batch=self.first_batch,
            values=window.values,
            not_finite=_not_finite(steps, window.values),
        )
        self._open, self._batches = [], end
        self._context.write(record)
        for name, column in window.values.items():
            given = any(value is not None for value in column)
            self._given[name] = self._given.get(name, False) or given
        self._log([step for step, _ in window.steps], window.values)
        self._context.flush()

    def _log(self, steps: Sequence[int | None], columns: Columns) -> None:
        if not self._loggers:
            return
        others = self._others()
        named = {self._prefix + name: column for name, column in columns.items()}
        for index, step in enumerate(steps):
            if step is None:
                continue
            values = {
                name: value
                for name, column in named.items()
                if name not in others and (value := column[index]) is not None
            }
            for logger, every in self._loggers if values else ():
                if step % every == 0:
                    logger.log(dict(values), step)  # a logger may change the dict
        for logger, _ in self._loggers:
            logger.save()


def logged_names(epoch_loop: Any) -> set[str]:
    """Return the names that `self.log` has written to loggers so far, in training or validation."""
    metas = [
        result.meta
        for results in map(logged_results, (epoch_loop, epoch_loop.val_loop))
        for result in results.values()
        if result.meta.logger
    ]
    in_steps = {meta.forked_name(on_step=True) for meta in metas if meta.on_step}
    return in_steps | {meta.forked_name(on_step=False) for meta in metas if meta.on_epoch}


def _joined(windows: Sequence[ScalarBatch]) -> ScalarBatch:
    """Return windows as one, and leave them as they are."""
    return ScalarBatch(
        [step for window in windows for step in window.steps],
        {
            name: [value for window in windows for value in window.values[name]]
            for name in windows[0].values
        },
    )


def _not_finite(steps: Sequence[int], columns: Columns) -> dict[str, list[int]]:
    """Return the steps of each value that JSON turns into null although the step gave one."""
    found = {
        name: [
            step
            for step, value in zip(steps, column, strict=True)
            if value is not None and not isfinite(value)
        ]
        for name, column in columns.items()
    }
    return {name: steps for name, steps in found.items() if steps}
