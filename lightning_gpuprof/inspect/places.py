"""Whose line is running: reads the Python stack while a call is under way."""

import linecache
import os
from enum import Enum
from functools import lru_cache
from types import FrameType
from typing import Any, NamedTuple

import torch

from lightning_gpuprof.adapters.actions import PHASES
from lightning_gpuprof.adapters.frames import CALLBACK_HOOKS, HOOK_CALLERS, LOGGER_CONNECTOR
from lightning_gpuprof.adapters.lightning import is_kind
from lightning_gpuprof.recorders.sampling.stack_lines import outwards
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.session.places import package_of

_INSPECTING = os.path.dirname(os.path.abspath(__file__)) + os.sep
_LIGHTNING = ("lightning", "pytorch_lightning", "lightning_fabric", "lightning_utilities")
_SKIPPED = ("python", "torch", "tensorboard", "tqdm", "rich", "numpy")


class Kind(Enum):
    """Whose code a frame runs."""

    SKIPPED = "skipped"
    """Torch's, Python's or ours: never the cause."""
    OURS = "ours"
    """Of this package, but for the inspection."""
    LIGHTNING = "lightning"
    METRIC = "metric"
    CODE = "code"
    """The user's, or a library's that the user chose."""


class Place(NamedTuple):
    """The line that caused a host sync."""

    file: str
    line: int
    function: str
    owner: str
    phase: str | None
    metric: str | None = None
    """The name under which a value was logged, where Lightning reads it on its own."""

    @property
    def source(self) -> str:
        """The line's text; empty where it cannot be read."""
        return linecache.getline(self.file, self.line).strip()


def place_of(frame: FrameType | None) -> Place | None:
    """Return the line to blame; None outside the training loop, and for this package's own calls.

    Args:
        frame: The innermost frame while the call that syncs is under way.
    """
    walk = _Walk()
    for each in outwards(frame):
        if not walk.past(each):
            return None
    return walk.place()


def user_line(frame: FrameType | None) -> tuple[str, int, str] | None:
    """Return the innermost line of the user's own code."""
    for each in outwards(frame):
        if kind_of(each.f_code.co_filename) is Kind.CODE:
            return each.f_code.co_filename, each.f_lineno, each.f_code.co_name
    return None


@lru_cache(maxsize=4096)
def kind_of(filename: str) -> Kind:
    """Tell whose code a file is.

    >>> kind_of(os.__file__), kind_of(torch.__file__), kind_of("train.py")
    (<Kind.SKIPPED: 'skipped'>, <Kind.SKIPPED: 'skipped'>, <Kind.CODE: 'code'>)
    """
    package = package_of(filename)
    if package == "lightning_gpuprof":
        inspecting = os.path.abspath(filename).startswith(_INSPECTING)
        return Kind.SKIPPED if inspecting else Kind.OURS
    if package in _LIGHTNING:
        return Kind.LIGHTNING
    if package == "torchmetrics":
        return Kind.METRIC
    return Kind.SKIPPED if package in _SKIPPED else Kind.CODE


class _Walk:
    """Gathers what the frames say, from the innermost outwards."""

    def __init__(self) -> None:
        self._first: Kind | None = None
        self._line: tuple[str, int, str] | None = None
        self._users: tuple[str, int, str] | None = None
        self._owner: str | None = None
        self._hook: str | None = None
        self._phase: Phase | None = None
        self._metric: str | None = None
        self._in_loop = False

    def past(self, frame: FrameType) -> bool:
        """Take a frame in; returns False where the sync is outside the training loop."""
        kind, code = kind_of(frame.f_code.co_filename), frame.f_code
        if self._first is None and kind is not Kind.SKIPPED:
            self._first = kind
            self._line = code.co_filename, frame.f_lineno, code.co_name
        if self._first is Kind.OURS:
            return False
        if kind is Kind.LIGHTNING and not self._past_lightning(frame):
            return False
        if self._hook is None:
            self._past_actor(frame, kind)
        return True

    def place(self) -> Place | None:
        """Return the line once all frames are passed."""
        if self._line is None or not self._in_loop:
            return None
        owner = self._owner
        if owner is None:
            by_lightning = self._first is Kind.LIGHTNING or self._users is None
            owner = "lightning" if by_lightning else "user"
        phase = self._phase.value if self._phase is not None else None
        return Place(*(self._users or self._line), owner, phase, self._metric)

    def _past_lightning(self, frame: FrameType) -> bool:
        name = frame.f_code.co_name
        module = os.path.basename(frame.f_code.co_filename)
        if name == "batch_to":  # asynchronous on a GPU
            return False
        if module == "evaluation_loop.py":
            return False
        if module == "training_epoch_loop.py" and name in ("advance", "on_advance_end"):
            self._in_loop = True
        if self._metric is None:
            self._metric = _logged_name(frame)
        if self._hook is None:
            self._past_hook(frame, name, module)
        return True

    def _past_hook(self, frame: FrameType, name: str, module: str) -> None:
        if name in HOOK_CALLERS:
            self._hook = str(frame.f_locals.get("hook_name", ""))
            if name == CALLBACK_HOOKS:
                self._phase = self._phase or Phase.CALLBACKS
                self._owner = self._owner or _callback_owner(frame.f_locals.get("callback"))
            else:
                self._phase = self._phase or PHASES.get(self._hook, (Phase.OTHER, True))[0]
        elif name in ("log_metrics", "update_train_step_metrics"):
            self._phase = self._phase or Phase.LOGGING
        elif module == "fetchers.py":
            self._hook = "fetch"
            self._phase, self._owner = Phase.DATA_WAIT, "dataloader"

    def _past_actor(self, frame: FrameType, kind: Kind) -> None:
        actor = frame.f_locals.get("self") if kind is not Kind.SKIPPED else None
        if kind is Kind.CODE and self._users is None:
            self._users = frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name
        if self._owner is not None:
            return
        if kind is Kind.METRIC or (kind is Kind.CODE and is_kind(actor, "Metric")):
            if self._first is not Kind.LIGHTNING:
                self._owner = "metric"
        elif is_kind(actor, "Logger") and not is_kind(actor, LOGGER_CONNECTOR):
            self._owner = f"logger:{type(actor).__name__}"
            self._phase = Phase.LOGGING


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
        meta = getattr(found.get("result_metric"), "meta", None)
        return getattr(meta, "name", None)
    name = found.get("k")
    return name if isinstance(name, str) and isinstance(found.get("v"), torch.Tensor) else None
