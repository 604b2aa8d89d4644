"""Writes numbers that have arrived on the host to the run's records and the loggers."""

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
"""For each name a value per step, or None if the step has no value of that name."""


class ScalarSink:
    """Writes windows of numbers to the records and the loggers during a fit.

    The steps of a window are pairs. The first item is the step that `self.log` would use, or None
    while gradients accumulate. The second is the number by which Lightning has divided the loss.
    The loss is multiplied by it, which may change its last digit.

    Args:
        context: The session.
        loggers: The loggers, each with the interval in steps at which it receives values.
        prefix: Written before every name that loggers receive.
        names_of_others: Returns the names that the module logs itself, which loggers do not receive
            a second time.
    """

    def __init__(
        self,
        context: RunContext,
        *,
        loggers: Sequence[tuple[SafeLogger, int]],
        prefix: str,
        names_of_others: Callable[[], AbstractSet[str]],
    ) -> None:
        self._context = context
        self._loggers = loggers
        self._prefix = prefix
        self._names_of_others = names_of_others
        self._batches = 0
        self._unwritten: list[ScalarBatch] = []
        self.first_batch = 0
        """The number of batches that were trained before this session, in a run that is resumed."""
        self._has_value: dict[str, bool] = {}

    @property
    def missing(self) -> list[str]:
        """The names that have had no value in any step."""
        return [name for name, has_value in self._has_value.items() if not has_value]

    def write(self, windows: Sequence[ScalarBatch]) -> None:
        """Write windows, oldest first.

        Windows of an earlier call that Ctrl-C has interrupted are written before them.
        """
        self._unwritten.extend(windows)
        if not self._unwritten:
            return
        window = _joined(self._unwritten)
        end = self._batches + len(window.steps)
        if losses := window.values.get("loss"):
            window.values["loss"] = [
                loss if loss is None else loss * divisor
                for loss, (_, divisor) in zip(losses, window.steps, strict=True)
            ]
        steps = list(range(self._batches, end))
        record = Scalars(
            steps=steps,
            first_batch=self.first_batch,
            values=window.values,
            not_finite=_not_finite(steps, window.values),
        )
        self._unwritten, self._batches = [], end
        self._context.write(record)
        for name, column in window.values.items():
            has_value = any(value is not None for value in column)
            self._has_value[name] = self._has_value.get(name, False) or has_value
        self._log([step for step, _ in window.steps], window.values)
        self._context.flush()

    def _log(self, steps: Sequence[int | None], columns: Columns) -> None:
        if not self._loggers:
            return
        names_of_others = self._names_of_others()
        logged_columns = {
            self._prefix + name: column
            for name, column in columns.items()
            if self._prefix + name not in names_of_others
        }
        for index, step in enumerate(steps):
            if step is None:
                continue
            values = {
                name: value
                for name, column in logged_columns.items()
                if (value := column[index]) is not None
            }
            if not values:
                continue
            for logger, every_n_steps in self._loggers:
                if step % every_n_steps == 0:
                    logger.log(dict(values), step)  # a copy, since a logger may change the dict
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
    """Return a window with the content of all windows, which stay unchanged."""
    return ScalarBatch(
        [step for window in windows for step in window.steps],
        {
            name: [value for window in windows for value in window.values[name]]
            for name in windows[0].values
        },
    )


def _not_finite(steps: Sequence[int], columns: Columns) -> dict[str, list[int]]:
    """Return for each name the steps whose value is NaN or infinite, which JSON writes as null."""
    steps_by_name = {
        name: [
            step
            for step, value in zip(steps, column, strict=True)
            if value is not None and not isfinite(value)
        ]
        for name, column in columns.items()
    }
    return {name: not_finite for name, not_finite in steps_by_name.items() if not_finite}
