"""A change that `try` can measure. Each file of `changes/` describes one in its docstring."""

import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from typing import Any, Literal

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.records.trials import ChangedSettings

Values = list[Any] | str
"""The values worth a trial, best first, or the reason why there are none."""

NO_LOADER = "its batches come from no DataLoader"
PASSES = (Phase.FORWARD, Phase.BACKWARD)


@dataclass(frozen=True, kw_only=True)
class Change:
    """A setting that a trial changes.

    Give `place` if the value is an argument that has the change's name, else `write`.
    """

    name: str = ""
    """The name of the file that defines the change."""
    values: Callable[[RunResults], Values]
    place: Literal["", "Trainer", "DataLoader"] = ""
    """The constructor that takes the value as an argument."""
    write: Callable[[Any, RunResults], ChangedSettings] | None = None
    """Returns what to write into the program for a value."""
    phases: tuple[Phase, ...] = ()
    """The phases whose time the change can reduce. Empty if it can reduce the time of any phase."""
    findings: tuple[str, ...] = ()
    """The ids of the findings that this change answers."""
    alters: str = ""
    """How the results of training differ, beyond rounding."""
    redraws: bool = False
    """Whether the data set draws other random numbers, so that losses differ by chance."""
    ceiling: bool = False
    """Whether the change only shows what other changes could gain at most. It is never advised."""
    on_request: bool = False
    """Whether the change is tried only if the user names it."""
    computed: bool = False
    """Whether the finding's own arithmetic gives the gain, so that no trial is run."""

    def settings(self, value: Any, run: RunResults) -> ChangedSettings:
        """Return what to write into the program for a value."""
        if self.write is not None:
            return self.write(value, run)
        arguments = {self.name: value}
        if self.place == "Trainer":
            return ChangedSettings(trainer=arguments)
        return ChangedSettings(data_loader=arguments)

    def share(self, run: RunResults) -> float:
        """Return the share of a step that the change could save at most.

        For each phase that is the larger one of its share on the host and on the device.
        """
        if not self.phases:
            return 1.0
        on_device = run.device.time.phases if run.device.time else {}
        whole = 0.0
        for phase in self.phases:
            measured = (run.per_step(phase), on_device.get(phase))
            whole += max((time.frac for time in measured if time), default=0.0)
        return min(1.0, whole)


@cache
def changes() -> dict[str, Change]:
    """Return all changes by name."""
    package = "lightning_gpuprof.trials.changes"
    by_name: dict[str, Change] = {}
    for module in pkgutil.iter_modules(import_module(package).__path__):
        change: Change = import_module(f"{package}.{module.name}").CHANGE
        by_name[module.name] = replace(change, name=module.name)
    return by_name


def merged(several: Sequence[ChangedSettings]) -> ChangedSettings:
    """Return the settings of several changes together; of equal arguments the last one counts.

    >>> first, second = ChangedSettings(trainer={"a": 1}), ChangedSettings(trainer={"b": 2})
    >>> merged([first, second]).trainer
    {'a': 1, 'b': 2}
    """
    whole = ChangedSettings()
    for settings in several:
        whole = ChangedSettings(
            data_loader={**whole.data_loader, **settings.data_loader},
            trainer={**whole.trainer, **settings.trainer},
            optimizer={**whole.optimizer, **settings.optimizer},
            callbacks=(*whole.callbacks, *settings.callbacks),
            lines=(*whole.lines, *settings.lines),
            without_callbacks=(*whole.without_callbacks, *settings.without_callbacks),
            without_loggers=settings.without_loggers or whole.without_loggers,
            cached_batches=settings.cached_batches or whole.cached_batches,
        )
    return whole


def snippet(settings: ChangedSettings) -> str:
    """Return settings as lines of code to paste into the program."""
    constructors = {
        "DataLoader": settings.data_loader,
        "Trainer": settings.trainer,
        "optimizer": settings.optimizer,
    }
    lines = []
    for constructor, arguments in constructors.items():
        if arguments:
            written = ", ".join(f"{name}={value!r}" for name, value in arguments.items())
            lines.append(f"{constructor}(..., {written})")
    lines += [f"Trainer(..., callbacks=[{name}()])" for name in settings.callbacks]
    lines += settings.lines
    return "\n".join(lines)
