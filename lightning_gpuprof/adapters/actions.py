"""Maps the actions of the Trainer's profiler to phases and to loop events.

The names of actions are those of Lightning 2.4 to 2.6: `[Callback]<state key>.<hook>`,
`[LightningModule]<class>.<hook>`, `[Strategy]<class>.<hook>`, a bare name, or that of a loop, such
as `[_TrainingEpochLoop].train_dataloader_next`. An unknown action belongs to the program itself.
"""

import re
from collections import Counter
from collections.abc import Iterable
from enum import Enum
from typing import Any, NamedTuple

from lightning_gpuprof.adapters.lightning import hook_of, is_kind
from lightning_gpuprof.records.phases import LOADER_HOOKS, WORKER_STARTUP, Phase


class LoopEvent(Enum):
    """An action at which a step, an epoch or the run begins or ends."""

    FETCH = "fetch"
    BATCH = "batch"
    EPOCH_LOOP = "epoch_loop"
    BEFORE_EPOCH = "before_epoch"
    AFTER_EPOCH = "after_epoch"
    TRAIN_START = "train_start"
    END = "end"


class Action(NamedTuple):
    """The name of an action of the Trainer's profiler, split."""

    kind: str
    """Callback, LightningModule, Strategy, ...; empty for a bare name."""
    owner: str
    """The callback's state key, or the class of a module or strategy."""
    name: str
    """The hook, or the bare name."""


FETCH_ACTION = "train_dataloader_next"
"""The action in which Lightning fetches a training batch."""
LOADER_SETUP_ACTION = "setup_train_dataloader"
"""The action in which Lightning after 2.6 creates the first iterators, which start workers."""
_BATCH_TRANSFER = (
    "on_before_batch_transfer", "transfer_batch_to_device", "on_after_batch_transfer",
)  # fmt: skip
_ACTION = re.compile(r"\[(\w+)\](?:(.*)\.|\.)(\w+)", re.DOTALL)

_WHOLE: dict[Phase, tuple[str, ...]] = {
    Phase.DATA_WAIT: (FETCH_ACTION, "val_next", "test_next", "predict_next"),
    Phase.HOST_TO_DEVICE: ("batch_to_device", "transfer_batch_to_device"),
    Phase.FORWARD: ("training_step", "validation_step", "test_step", "predict_step"),
    Phase.BACKWARD: ("backward",),
    Phase.ZERO_GRAD: ("optimizer_zero_grad",),
    Phase.CLIP_GRADIENTS: ("configure_gradient_clipping",),
    Phase.OPTIMIZER_STEP: ("optimizer_step",),
    Phase.OTHER: ("run_training_batch", "run_training_epoch"),
    Phase.VALIDATION: ("on_validation_model_zero_grad",),
    Phase.CHECKPOINT: ("save_checkpoint",),
}
_PARTS: dict[Phase, tuple[str, ...]] = {
    Phase.DATA_WAIT: LOADER_HOOKS,
    Phase.HOST_TO_DEVICE: ("on_before_batch_transfer", "on_after_batch_transfer"),
    Phase.CHECKPOINT: ("on_save_checkpoint", "on_load_checkpoint"),
}  # fmt: skip
PHASES: dict[str, tuple[Phase, str | None]] = {
    **{name: (phase, None) for phase, names in _WHOLE.items() for name in names},
    **{name: (phase, name) for phase, names in _PARTS.items() for name in names},
    LOADER_SETUP_ACTION: (Phase.DATA_WAIT, WORKER_STARTUP),
}
"""By hook or bare name: the phase, and the part of that phase, if the action is a named part.
Hooks of callbacks are not looked up here. Other hooks of the module are parts of `other`."""

LOOP_EVENTS: dict[str, LoopEvent] = {
    FETCH_ACTION: LoopEvent.FETCH,
    "run_training_batch": LoopEvent.BATCH,
    "run_training_epoch": LoopEvent.EPOCH_LOOP,
    "on_train_start": LoopEvent.TRAIN_START,
    "on_train_epoch_start": LoopEvent.BEFORE_EPOCH,
    "on_train_end": LoopEvent.END,
}
_EVALUATIONS = {"val": "validation", "test": "test", "predict": "predict"}
for _fetch, _hook in _EVALUATIONS.items():  # these are not used for a validation inside a fit
    LOOP_EVENTS |= {
        f"{_fetch}_next": LoopEvent.FETCH,
        f"{_hook}_step": LoopEvent.BATCH,
        f"on_{_hook}_start": LoopEvent.TRAIN_START,
        f"on_{_hook}_epoch_start": LoopEvent.BEFORE_EPOCH,
        f"on_{_hook}_epoch_end": LoopEvent.AFTER_EPOCH,
        f"on_{_hook}_end": LoopEvent.END,
    }

EXCEPTION_HOOK = "on_exception"
ENDS = ("run_training_epoch", EXCEPTION_HOOK, "teardown")
"""Actions after which a fit may be over: the end of an epoch, an exception, and the teardown."""


def parse_action(name: str) -> Action:
    """Split an action's name into its parts.

    >>> parse_action("[Callback]ModelCheckpoint{'monitor': None}.on_train_end")
    Action(kind='Callback', owner="ModelCheckpoint{'monitor': None}", name='on_train_end')
    """
    match = _ACTION.fullmatch(name)
    if match is None:
        return Action("", "", name)
    return Action(match[1], match[2] or "", match[3])


def phase_of(action: Action) -> tuple[Phase, str | None] | None:
    """Return the phase and part of an action; None if the action is the program's own."""
    entry = PHASES.get(action.name)
    if entry is not None:
        return entry
    if not action.kind:
        return None
    is_users = action.kind in ("LightningModule", "LightningDataModule")
    return Phase.OTHER, action.name if is_users else None


def class_of_state_key(state_key: str) -> str:
    """Return the class name that a callback's state key begins with.

    >>> class_of_state_key("ModelCheckpoint{'monitor': None}")
    'ModelCheckpoint'
    """
    return re.split(r"[{\[(]", state_key, maxsplit=1)[0].rsplit(".", 1)[-1] or state_key


def callback_name(callbacks: Iterable[Any], state_key: str) -> tuple[str, bool]:
    """Return the name of a callback, and whether it saves checkpoints.

    The name is that of the class, with a number from the second callback of the same class on.
    """
    count: Counter[str] = Counter()
    for callback in callbacks:
        name = type(callback).__name__
        count[name] += 1
        if getattr(callback, "state_key", None) == state_key:
            number = count[name]
            return name if number == 1 else f"{name}#{number}", is_kind(callback, "Checkpoint")
    return class_of_state_key(state_key), False


def is_idle(trainer: Any, action: Action) -> bool:
    """Return whether an action runs an empty hook, which the program does not override.

    `transfer_batch_to_device` counts as such a hook too, since `batch_to_device` around it has the
    same time.
    """
    name = action.name
    if name in _BATCH_TRANSFER and action.kind == "LightningModule":
        return hook_of(trainer.lightning_module, name) == f"DataHooks.{name}"
    if name in PHASES or not name.startswith("on_"):
        return False
    if action.kind == "Strategy":
        return hook_of(trainer.strategy, name) == f"Strategy.{name}"
    if action.kind == "LightningModule":
        return hook_of(trainer.lightning_module, name) == f"ModelHooks.{name}"
    if action.kind != "Callback":
        return False
    owners = (c for c in trainer.callbacks if getattr(c, "state_key", None) == action.owner)
    return hook_of(next(owners, None), name) == f"Callback.{name}"


def own_callback_names(trainer: Any) -> list[str]:
    """Return the names of this package's callbacks in a Trainer, and of their parts."""
    callbacks: list[Any] = getattr(trainer, "callbacks", [])
    names = []
    for callback in callbacks:
        if type(callback).__module__.startswith("lightning_gpuprof."):
            names.append(callback_name(callbacks, callback.state_key)[0])
            names.extend(type(part).__name__ for part in getattr(callback, "parts", ()))
    return names
