"""A change that `try` can measure; its file in `changes/` says what it does."""

import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from typing import Any

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.records.phases import Phase

Settings = dict[str, Any]
"""What to write where: arguments by `Trainer`, `DataLoader` or `optimizer`, `callbacks` of this
package, and `lines` that know `torch` and `model`. A trial does just this in its child, where
`cached_batches` is known too."""
Values = list[Any] | str
"""Values worth a trial, best first, or the reason why there is none."""

NO_LOADER = "its batches come from no DataLoader"
PASSES = (Phase.FORWARD, Phase.BACKWARD)


@dataclass(frozen=True, kw_only=True)
class Change:
    """One setting that a trial changes: its value is an argument at `place`, or `write` says it."""

    name: str = ""
    """Its file's."""
    values: Callable[[RunResults], Values]
    place: str = ""
    write: Callable[[Any, RunResults], Settings] | None = None
    phases: tuple[Phase, ...] = ()
    """Where the time lies that it can save; empty where that may be anywhere."""
    findings: tuple[str, ...] = ()
    alters: str = ""
    """How the results of training differ, beyond rounding."""
    redraws: bool = False
    """The data set draws other random numbers, so losses differ by chance."""
    ceiling: bool = False
    """It shows what others could gain at most, and is nothing to keep."""
    computed: bool = False
    """The finding's own arithmetic is enough: there is no trial."""

    def settings(self, value: Any, run: RunResults) -> Settings:
        """Return what to write into the program."""
        return self.write(value, run) if self.write else {self.place: {self.name: value}}

    def share(self, run: RunResults) -> float:
        """Return the share of a step that it could save at most, by the host or the device."""
        marked = run.device.time.phases if run.device.time else {}
        both = [(run.per_step(phase), marked.get(phase)) for phase in self.phases]
        shares = [max((one.frac for one in pair if one), default=0.0) for pair in both]
        return min(1.0, sum(shares)) if self.phases else 1.0


@cache
def changes() -> dict[str, Change]:
    """Return all changes by name."""
    package = "lightning_gpuprof.trials.changes"
    folder = import_module(package).__path__
    names = [one.name for one in pkgutil.iter_modules(folder)]
    found = {name: import_module(f"{package}.{name}").CHANGE for name in names}
    return {name: replace(change, name=name) for name, change in found.items()}


def merged(several: Sequence[Settings]) -> Settings:
    """Return several settings as one.

    >>> merged([{"Trainer": {"a": 1}}, {"Trainer": {"b": 2}, "lines": ["x"]}])
    {'Trainer': {'a': 1, 'b': 2}, 'lines': ['x']}
    """
    whole: Settings = {}
    for place, added in (item for settings in several for item in settings.items()):
        if isinstance(added, dict):
            whole[place] = {**whole.get(place, {}), **added}
        else:
            whole[place] = [*whole.get(place, []), *added]
    return whole


def snippet(settings: Settings) -> str:
    """Return settings as code to paste."""
    lines = []
    for place, options in settings.items():
        if isinstance(options, dict):
            given = ", ".join(f"{name}={value!r}" for name, value in options.items())
            lines.append(f"{place}(..., {given})")
    lines += [f"Trainer(..., callbacks=[{name}()])" for name in settings.get("callbacks", ())]
    return "\n".join([*lines, *settings.get("lines", ())])
