"""Finds the line of code that caused a host sync, on the Python stack of the call that syncs."""

import os
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from types import FrameType
from typing import Any, NamedTuple

import msgspec
import torch

from lightning_gpuprof.adapters.actions import PHASES
from lightning_gpuprof.adapters.frames import (
    CALLBACK_HOOKS,
    HOOK_CALLERS,
    LIGHTNING_PACKAGES,
    LOGGER_CONNECTOR,
)
from lightning_gpuprof.adapters.lightning import is_kind
from lightning_gpuprof.recorders.sampling.stack_lines import frames_outwards
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.records.schema import SyncSite
from lightning_gpuprof.runtime import wrap
from lightning_gpuprof.runtime.places import Place as Line
from lightning_gpuprof.runtime.places import package_of, shown

_INSPECTION_FILES = (os.path.dirname(os.path.abspath(__file__)) + os.sep, wrap.__file__)
_LIGHTNING = (*LIGHTNING_PACKAGES, "lightning_utilities")
_SKIPPED = ("python", "torch", "tensorboard", "tqdm", "rich", "numpy")
"""Packages whose code only does what its caller asks for, so that the caller is shown instead."""


class SyncPlace(NamedTuple):
    """The line of code that caused a host sync."""

    file: str
    line: int
    function: str
    owner: str
    """Whose code it is: `user`, `lightning`, `metric`, `dataloader`, or `callback:` or `logger:`
    with the name of a class."""
    phase: str | None
    metric: str | None = None
    """The name of the logged value that Lightning reads in this line."""


def place_of(innermost: FrameType | None) -> SyncPlace | None:
    """Return the line of code that caused a host sync.

    None outside the training loop, and for a sync that this package itself causes. `innermost` is
    the innermost frame while the call that syncs is running.
    """
    walk = _StackWalk()
    for frame in frames_outwards(innermost):
        if not walk.visit(frame):
            return None
    return walk.place()


def user_line(innermost: FrameType | None) -> Line | None:
    """Return the innermost line of the user's own code, or None."""
    for frame in frames_outwards(innermost):
        if kind_of(frame.f_code.co_filename) == "code":
            return _line_of(frame)
    return None


@lru_cache(maxsize=4096)
def kind_of(filename: str) -> str:
    """Return whose code a file holds.

    `code` is the user's own, or that of a library that the user has chosen. `lightning` and
    `metric` are Lightning and torchmetrics, `ours` is this package without its inspection. Code of
    `nobody`, such as torch's, never counts as the cause of a sync.
    """
    package = package_of(filename)
    if package == "lightning_gpuprof":
        return "nobody" if os.path.abspath(filename).startswith(_INSPECTION_FILES) else "ours"
    if package in _LIGHTNING:
        return "lightning"
    if package == "torchmetrics":
        return "metric"
    return "nobody" if package in _SKIPPED else "code"


class _StackWalk:
    """Visits the frames of a stack from the innermost outwards and gathers what they say."""

    def __init__(self) -> None:
        self._innermost_kind: str | None = None
        self._innermost_line: Line | None = None
        self._user_line: Line | None = None
        self._owner: str | None = None
        self._hook: str | None = None
        self._phase: Phase | None = None
        self._metric: str | None = None
        self._in_loop = False

    def visit(self, frame: FrameType) -> bool:
        """Visit the next frame; returns False if the sync does not count."""
        kind = kind_of(frame.f_code.co_filename)
        if self._innermost_kind is None and kind != "nobody":
            self._innermost_kind, self._innermost_line = kind, _line_of(frame)
        if self._innermost_kind == "ours":
            return False
        if kind == "lightning" and not self._visit_lightning(frame):
            return False
        if self._hook is None and kind != "nobody":
            if kind == "code":
                self._user_line = self._user_line or _line_of(frame)
            if self._owner is None:
                self._find_owner(frame.f_locals.get("self"), kind)
        return True

    def place(self) -> SyncPlace | None:
        """Return the line that caused the sync, once all frames have been visited."""
        if self._innermost_line is None or not self._in_loop:
            return None
        by_lightning = self._innermost_kind == "lightning" or self._user_line is None
        owner = self._owner or ("lightning" if by_lightning else "user")
        phase = self._phase.value if self._phase is not None else None
        return SyncPlace(*(self._user_line or self._innermost_line), owner, phase, self._metric)

    def _visit_lightning(self, frame: FrameType) -> bool:
        """Visit a frame of Lightning; returns False if the sync does not count."""
        name, module = frame.f_code.co_name, os.path.basename(frame.f_code.co_filename)
        # The copies of `batch_to` do not wait, and evaluation is no part of the training loop.
        if name == "batch_to" or module == "evaluation_loop.py":
            return False
        if module == "training_epoch_loop.py" and name in ("advance", "on_advance_end"):
            self._in_loop = True
        self._metric = self._metric or _logged_name(frame)
        if self._hook is not None:
            return True
        if name in HOOK_CALLERS:
            self._hook = str(frame.f_locals.get("hook_name", ""))
            phase, _ = PHASES.get(self._hook, (Phase.OTHER, True))
            if name == CALLBACK_HOOKS:
                phase = Phase.CALLBACKS
                self._owner = self._owner or _callback_owner(frame.f_locals.get("callback"))
            self._phase = self._phase or phase
        elif name in ("log_metrics", "update_train_step_metrics"):
            self._phase = self._phase or Phase.LOGGING
        elif module == "fetchers.py":
            self._hook, self._phase, self._owner = "fetch", Phase.DATA_WAIT, "dataloader"
        return True

    def _find_owner(self, actor: Any, kind: str) -> None:
        if kind == "metric" or (kind == "code" and is_kind(actor, "Metric")):
            if self._innermost_kind != "lightning":
                self._owner = "metric"
        elif is_kind(actor, "Logger") and not is_kind(actor, LOGGER_CONNECTOR):
            self._owner, self._phase = f"logger:{type(actor).__name__}", Phase.LOGGING


def _line_of(frame: FrameType) -> Line:
    return frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name


def _callback_owner(callback: Any) -> str | None:
    if callback is None:
        return None
    by_lightning = type(callback).__module__.split(".")[0] in _LIGHTNING
    if is_kind(callback, "ProgressBar") and by_lightning:
        return "lightning"
    return f"callback:{type(callback).__name__}"


def _logged_name(frame: FrameType) -> str | None:
    """Return the name of the logged value that Lightning's code is about to read."""
    variables = frame.f_locals
    if frame.f_code.co_name == "metrics":
        return getattr(getattr(variables.get("result_metric"), "meta", None), "name", None)
    name, value = variables.get("k"), variables.get("v")
    return name if isinstance(name, str) and isinstance(value, torch.Tensor) else None


@dataclass
class HostSync:
    """A host sync, with its duration if it was measured."""

    place: SyncPlace
    operation: str
    blocked_ns: int | None = None


ReportSync = Callable[[str], HostSync | None]
"""Called with the operation's name while the call that syncs is on the Python stack. Returns the
sync, or None if it does not count."""


@dataclass
class SyncSites:
    """Collects host syncs and sums them up by line of code.

    A value that Lightning reads for the progress bar or a logger counts at the line of the user's
    `self.log` call.
    """

    would_sync: bool = False
    _syncs: list[HostSync] = field(default_factory=list)
    _lines_of_values: dict[str, Line] = field(default_factory=dict)

    def add(self, operation: str) -> HostSync | None:
        """Add the sync of the call that is on the stack; returns None if it does not count."""
        place = place_of(sys._getframe(1))
        if place is None:
            return None
        sync = HostSync(place, operation)
        self._syncs.append(sync)
        return sync

    def note_logged_value(self, name: str) -> None:
        """Note the line that logs a value, while `self.log` is on the stack."""
        line = user_line(sys._getframe(1))
        if line is not None:
            self._lines_of_values[name] = line

    def rows(self, steps: int) -> tuple[SyncSite, ...]:
        """Return the lines that synced in a number of steps, those that block longest first."""
        by_line: dict[tuple[Line, str], list[HostSync]] = {}
        for sync in self._syncs:
            by_line.setdefault((self._line(sync.place), sync.place.owner), []).append(sync)
        sites = [_site(line, syncs, steps, self.would_sync) for (line, _), syncs in by_line.items()]
        return tuple(sorted(sites, key=lambda site: (-(site.blocked_ns or 0), -site.count)))

    def _line(self, place: SyncPlace) -> Line:
        own = place.file, place.line, place.function
        if place.owner != "lightning" or place.metric is None:
            return own
        # With on_step=True Lightning appends "_step" to the name that was given to `self.log`.
        name = place.metric.removesuffix("_step")
        lines = self._lines_of_values
        return lines.get(place.metric) or lines.get(name) or own


def _site(line: Line, syncs: list[HostSync], steps: int, would_sync: bool) -> SyncSite:
    operations = Counter(sync.operation for sync in syncs)
    blocked = [sync.blocked_ns for sync in syncs if sync.blocked_ns is not None]
    phases = Counter(sync.place.phase for sync in syncs)
    return SyncSite(
        **msgspec.structs.asdict(shown(line)),
        owner=syncs[0].place.owner,
        operation=", ".join(name for name, _ in operations.most_common()),
        count=len(syncs),
        steps_watched=max(1, steps),
        blocked_ns=sum(blocked) if blocked else None,
        would_sync=would_sync,
        phase=phases.most_common(1)[0][0],
    )
