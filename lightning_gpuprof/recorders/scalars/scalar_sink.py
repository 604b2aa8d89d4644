"""Hands numbers that have arrived on to the run's records, the loggers and the epoch's means."""

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import compress, groupby
from math import isfinite
from operator import itemgetter
from typing import Any, TypeVar

from lightning_gpuprof.adapters.lightning import logged_results
from lightning_gpuprof.recorders.scalars.epoch_means import EpochMeans
from lightning_gpuprof.recorders.scalars.logger_pace import Columns, LoggerPace
from lightning_gpuprof.recorders.scalars.scalar_log import ScalarBatch
from lightning_gpuprof.recorders.scalars.sketch import columns_of
from lightning_gpuprof.records.schema import Scalars
from lightning_gpuprof.session.output import RunOutput

_T = TypeVar("_T")


class ScalarSink:
    """Takes windows of numbers for as long as a fit lasts.

    A window's steps are pairs: the step that `self.log` would use, None while gradients accumulate,
    and the `Epoch`. The loss is multiplied by the number that Lightning has divided it by, which
    may change its last place.

    Args:
        output: The run's records.
        means: The epoch's means; kept by the caller, who saves them in checkpoints.
        paces: The loggers and which steps each gets.
        epoch_mean: Loggers get each epoch's means, as `<name>_epoch`.
        prefix: Put before every name in the loggers.
        others: Returns the names that others write to the loggers, which get none from here.
        tensors: Names of tensors, of whose sketches the records hold all and loggers get nothing.
    """

    def __init__(
        self,
        output: RunOutput,
        means: EpochMeans,
        *,
        paces: Sequence[LoggerPace],
        epoch_mean: bool,
        prefix: str,
        others: Callable[[], AbstractSet[str]],
        tensors: Sequence[str] = (),
    ) -> None:
        self._output = output
        self._means = means
        self._paces = paces
        self._epoch_mean = epoch_mean
        self._prefix = prefix
        self._others = others
        self._tensors = tensors
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
            parts = [epoch.parts for _, epoch in window.steps]
            window.values["loss"] = [
                loss if loss is None else loss * n for loss, n in zip(losses, parts, strict=True)
            ]
        steps = list(range(self._batches, end))
        sketches = {
            name: [window.values.pop(column) for column in columns_of(name)]
            for name in self._tensors
        }
        norms = {name: columns[0] for name, columns in sketches.items()}
        self._note_given(norms)
        record = Scalars(
            steps=steps,
            first_batch=self.first_batch,
            values=window.values,
            tensors=sketches,
            not_finite=_not_finite(steps, window.values | norms),
        )
        self._open, self._batches = [], end
        self._output.write(record)
        start = 0
        for epoch, marks in groupby(window.steps, key=itemgetter(1)):
            logger_steps = [step for step, _ in marks]
            part = slice(start, start + len(logger_steps))
            self.end_epoch(unless=epoch.number)
            self._take_part(logger_steps, {n: column[part] for n, column in window.values.items()})
            start = part.stop
        for pace in self._paces:
            pace.save()
        self._output.flush()

    def end_epoch(self, *, unless: int | None = None) -> None:
        """Log the open epoch's means and begin anew, unless this is still that epoch."""
        closed = self._means.close() if unless is None else self._means.begin(unless)
        if closed is not None and self._epoch_mean:
            means, step = closed
            values = self._for_loggers({f"{name}_epoch": mean for name, mean in means.items()})
            for pace in self._paces if values else ():
                pace.log(dict(values), step)

    def _take_part(self, steps: list[int | None], columns: Columns) -> None:
        """Take steps of one epoch."""
        self._note_given(columns)
        for name, column in columns.items():
            self._means.add(name, [value for value in column if value is not None])
        stepped = [step for step in steps if step is not None]
        if not stepped:
            return
        self._means.step = stepped[-1]
        if len(stepped) < len(steps):
            taken = [step is not None for step in steps]
            columns = {name: list(compress(column, taken)) for name, column in columns.items()}
        columns = self._for_loggers(columns)
        for pace in self._paces if columns else ():
            pace.log_steps(stepped, columns)

    def _note_given(self, columns: Columns) -> None:
        for name, column in columns.items():
            given = any(value is not None for value in column)
            self._given[name] = self._given.get(name, False) or given

    def _for_loggers(self, given: Mapping[str, _T]) -> dict[str, _T]:
        """Return what loggers get, under their names."""
        others = self._others()
        named = {self._prefix + name: what for name, what in given.items()}
        return {name: what for name, what in named.items() if name not in others}


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
