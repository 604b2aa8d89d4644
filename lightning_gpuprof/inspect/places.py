"""Host syncs by the line to blame, found on the Python stack while the call is under way."""

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
from lightning_gpuprof.adapters.frames import CALLBACK_HOOKS, HOOK_CALLERS, LOGGER_CONNECTOR
from lightning_gpuprof.adapters.lightning import is_kind
from lightning_gpuprof.recorders.sampling.stack_lines import outwards
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.records.schema import SyncSite
from lightning_gpuprof.runtime import patches
from lightning_gpuprof.runtime.places import Place as Line
from lightning_gpuprof.runtime.places import package_of, shown

_INSPECTING = (os.path.dirname(os.path.abspath(__file__)) + os.sep, patches.__file__)
_LIGHTNING = ("lightning", "pytorch_lightning", "lightning_fabric", "lightning_utilities")
_SKIPPED = ("python", "torch", "tensorboard", "tqdm", "rich", "numpy")


class Place(NamedTuple):
    """The line that caused a host sync; `metric` names a logged value that Lightning reads."""

    file: str
    line: int
    function: str
    owner: str
    phase: str | None
    metric: str | None = None


def place_of(frame: FrameType | None) -> Place | None:
    """Return the line to blame; None outside the training loop, and for this package's own calls.

    `frame` is the innermost while the call that syncs is under way.
    """
    walk = _Walk()
    return walk.place() if all(map(walk.passes, outwards(frame))) else None


def user_line(frame: FrameType | None) -> Line | None:
    """Return the innermost line of the user's own code."""
    users = (each for each in outwards(frame) if kind_of(each.f_code.co_filename) == "code")
    return next(map(_line_of, users), None)


@lru_cache(maxsize=4096)
def kind_of(filename: str) -> str:
    """Tell whose code a file is.

    `code` is the user's, or a library's that the user chose; `ours` this package's, but for the
    inspection; code of `nobody`, such as torch's, is never to blame.
    """
    package = package_of(filename)
    if package == "lightning_gpuprof":
        return "nobody" if os.path.abspath(filename).startswith(_INSPECTING) else "ours"
    if package in _LIGHTNING:
        return "lightning"
    if package == "torchmetrics":
        return "metric"
    return "nobody" if package in _SKIPPED else "code"


class _Walk:
    """Gathers what the frames say, from the innermost outwards."""

    def __init__(self) -> None:
        self._first: str | None = None
        self._line: Line | None = None
        self._users: Line | None = None
        self._owner: str | None = None
        self._hook: str | None = None
        self._phase: Phase | None = None
        self._metric: str | None = None
        self._in_loop = False

    def passes(self, frame: FrameType) -> bool:
        """Take a frame in; returns False where the sync does not count."""
        kind = kind_of(frame.f_code.co_filename)
        if self._first is None and kind != "nobody":
            self._first, self._line = kind, _line_of(frame)
        if self._first == "ours" or (kind == "lightning" and not self._in_lightning(frame)):
            return False
        if self._hook is None and kind != "nobody":
            if kind == "code":
                self._users = self._users or _line_of(frame)
            if self._owner is None:
                self._find_owner(frame.f_locals.get("self"), kind)
        return True

    def place(self) -> Place | None:
        """Return the line once all frames are passed."""
        if self._line is None or not self._in_loop:
            return None
        by_lightning = self._first == "lightning" or self._users is None
        owner = self._owner or ("lightning" if by_lightning else "user")
        phase = self._phase.value if self._phase is not None else None
        return Place(*(self._users or self._line), owner, phase, self._metric)

    def _in_lightning(self, frame: FrameType) -> bool:
        name, module = frame.f_code.co_name, os.path.basename(frame.f_code.co_filename)
        if name == "batch_to" or module == "evaluation_loop.py":  # the first does not wait
            return False
        if module == "training_epoch_loop.py" and name in ("advance", "on_advance_end"):
            self._in_loop = True
        self._metric = self._metric or _logged_name(frame)
        if self._hook is not None:
            return True
        if name in HOOK_CALLERS:
            self._hook = str(frame.f_locals.get("hook_name", ""))
            known, _ = PHASES.get(self._hook, (Phase.OTHER, True))
            if name == CALLBACK_HOOKS:
                known = Phase.CALLBACKS
                self._owner = self._owner or _callback_owner(frame.f_locals.get("callback"))
            self._phase = self._phase or known
        elif name in ("log_metrics", "update_train_step_metrics"):
            self._phase = self._phase or Phase.LOGGING
        elif module == "fetchers.py":
            self._hook, self._phase, self._owner = "fetch", Phase.DATA_WAIT, "dataloader"
        return True

    def _find_owner(self, actor: Any, kind: str) -> None:
        if kind == "metric" or (kind == "code" and is_kind(actor, "Metric")):
            if self._first != "lightning":
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
    found = frame.f_locals
    if frame.f_code.co_name == "metrics":
        return getattr(getattr(found.get("result_metric"), "meta", None), "name", None)
    name = found.get("k")
    return name if isinstance(name, str) and isinstance(found.get("v"), torch.Tensor) else None


@dataclass
class Hit:
    """One host sync, with its duration where that is known."""

    place: Place
    operation: str
    blocked_ns: int | None = None


Report = Callable[[str], Hit | None]
"""Called with the operation's name while the call that syncs is on the Python stack."""


@dataclass
class SyncSites:
    """Collects host syncs and makes one row of each line.

    A value that Lightning reads by itself, for the progress bar or a logger, is counted at the
    user's `self.log` call that asked for it.
    """

    would_sync: bool = False
    _hits: list[Hit] = field(default_factory=list)
    _logged: dict[str, Line] = field(default_factory=dict)

    def add(self, operation: str) -> Hit | None:
        """Take a sync in while its call is on the stack; None outside the training loop."""
        place = place_of(sys._getframe(1))
        if place is None:
            return None
        hit = Hit(place, operation)
        self._hits.append(hit)
        return hit

    def logs(self, name: str) -> None:
        """Remember which line logs a value, while `self.log` is on the stack."""
        line = user_line(sys._getframe(1))
        if line is not None:
            self._logged[name] = line

    def rows(self, steps: int) -> tuple[SyncSite, ...]:
        """Return the rows of so many steps, most blocking first."""
        rows: dict[tuple[Line, str], list[Hit]] = {}
        for hit in self._hits:
            rows.setdefault((self._line(hit.place), hit.place.owner), []).append(hit)
        sites = [_site(line, hits, steps, self.would_sync) for (line, _), hits in rows.items()]
        return tuple(sorted(sites, key=lambda site: (-(site.blocked_ns or 0), -site.count)))

    def _line(self, place: Place) -> Line:
        own = place.file, place.line, place.function
        if place.owner != "lightning" or place.metric is None:
            return own
        name = place.metric
        return self._logged.get(name) or self._logged.get(name.removesuffix("_step")) or own


def _site(line: Line, hits: list[Hit], steps: int, would_sync: bool) -> SyncSite:
    operations = Counter(hit.operation for hit in hits)
    blocked = [hit.blocked_ns for hit in hits if hit.blocked_ns is not None]
    phases = Counter(hit.place.phase for hit in hits)
    return SyncSite(
        **msgspec.structs.asdict(shown(line)),
        owner=hits[0].place.owner,
        operation=", ".join(name for name, _ in operations.most_common()),
        count=len(hits),
        steps_watched=max(1, steps),
        blocked_ns=sum(blocked) if blocked else None,
        would_sync=would_sync,
        phase=phases.most_common(1)[0][0],
    )
