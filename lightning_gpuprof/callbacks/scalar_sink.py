"""Hands numbers that have arrived on to the run's records, the loggers and the epoch's means."""

from collections import deque
from collections.abc import Sequence
from itertools import groupby
from math import isfinite
from typing import NamedTuple, TypeVar

from lightning_gpuprof.callbacks.logger_pace import LoggerPace
from lightning_gpuprof.callbacks.run_output import RunOutput
from lightning_gpuprof.probes.epoch_means import EpochMeans
from lightning_gpuprof.probes.scalar_log import ScalarBatch
from lightning_gpuprof.records.schema import Scalars

_T = TypeVar("_T")


class Mark(NamedTuple):
    """What a step's values are filed under."""

    logger_step: int | None
    """The step that `self.log` would use; None while gradients accumulate."""
    epoch: int


class ScalarSink:
    """Takes windows of numbers for as long as a fit lasts.

    Args:
        output: The run's records.
        means: The epoch's means; kept by the caller, who saves them in checkpoints.
        paces: The loggers and which steps each gets.
        epoch_mean: Loggers get each epoch's means, as `<name>_epoch`.
        prefix: Put before every name in the loggers.
    """

    def __init__(
        self,
        output: RunOutput,
        means: EpochMeans,
        *,
        paces: Sequence[LoggerPace],
        epoch_mean: bool,
        prefix: str,
    ) -> None:
        self._output = output
        self._means = means
        self._paces = paces
        self._epoch_mean = epoch_mean
        self._prefix = prefix
        self._marks: deque[Mark] = deque()

    def mark(self, logger_step: int | None, epoch: int) -> None:
        """Say what the next step's values will be filed under."""
        self._marks.append(Mark(logger_step, epoch))

    def take(self, batches: Sequence[ScalarBatch]) -> None:
        """Hand windows on, oldest first."""
        if not batches:
            return
        for batch in batches:
            self._output.write(
                Scalars(steps=batch.steps, values=batch.values, not_finite=_not_finite(batch))
            )
            marks = [self._marks.popleft() for _ in batch.steps]
            start = 0
            for epoch, group in groupby(marks, key=lambda mark: mark.epoch):
                stop = start + len(list(group))
                self.end_epoch(unless=epoch)
                self._take_part(marks[start:stop], batch, slice(start, stop))
                start = stop
        for pace in self._paces:
            pace.logger.save()
        self._output.flush()

    def end_epoch(self, *, unless: int | None = None) -> None:
        """Log the open epoch's means and begin anew, unless this is still that epoch."""
        closed = self._means.close() if unless is None else self._means.begin(unless)
        if closed is not None and self._epoch_mean:
            means, step = closed
            named = self._named({f"{name}_epoch": mean for name, mean in means.items()})
            for pace in self._paces:
                pace.log(dict(named), step)

    def _take_part(self, marks: list[Mark], batch: ScalarBatch, part: slice) -> None:
        """Take steps of one epoch."""
        columns = self._named({name: column[part] for name, column in batch.values.items()})
        for name, column in batch.values.items():
            self._means.add(name, [value for value in column[part] if value is not None])
        rows = [
            (step, values)
            for index, (step, _) in enumerate(marks)
            if step is not None and (values := _at(columns, index))
        ]
        for step, _ in marks:
            self._means.step = self._means.step if step is None else step
        for pace in self._paces:
            pace.log_steps(rows)

    def _named(self, values: dict[str, _T]) -> dict[str, _T]:
        if not self._prefix:
            return values
        return {self._prefix + name: value for name, value in values.items()}


def _at(columns: dict[str, list[float | None]], index: int) -> dict[str, float]:
    """Return a step's values."""
    return {name: value for name, column in columns.items() if (value := column[index]) is not None}


def _not_finite(batch: ScalarBatch) -> dict[str, list[int]]:
    """Return the steps of each value that JSON turns into null although the step gave one."""
    found = {
        name: [
            step
            for step, value in zip(batch.steps, values, strict=True)
            if value is not None and not isfinite(value)
        ]
        for name, values in batch.values.items()
    }
    return {name: steps for name, steps in found.items() if steps}
