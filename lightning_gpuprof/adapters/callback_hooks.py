"""The names of the hooks of a Lightning callback.

All of them are public in Lightning 2.4 to 2.6, and are read from the class `Callback` itself.
"""

from lightning_gpuprof.adapters.lightning import Callback

HOOKS = tuple(
    name for name in dir(Callback) if name.startswith("on_") or name in ("setup", "teardown")
)
_PER_BATCH = ("_batch_", "_zero_grad", "_backward", "_optimizer_step")
PER_BATCH_HOOKS = tuple(name for name in HOOKS if any(text in name for text in _PER_BATCH))
"""Hooks that a Trainer calls in every batch."""
BATCH_START, BATCH_END = "on_train_batch_start", "on_train_batch_end"
BEFORE_BACKWARD, AFTER_BACKWARD = "on_before_backward", "on_after_backward"


def has_hook(callback: Callback, hook: str) -> bool:
    """Return whether the class of a callback overrides a hook."""
    return getattr(type(callback), hook, None) is not getattr(Callback, hook, None)


def hook_in(stage: str, hook: str) -> str:
    """Return the hook of a stage that corresponds to a hook of training.

    >>> hook_in("validate", "on_train_batch_end"), hook_in("fit", "on_train_start")
    ('on_validation_batch_end', 'on_train_start')
    """
    name = {"fit": "train", "validate": "validation"}.get(stage, stage)
    return hook.replace("on_train_", f"on_{name}_")
