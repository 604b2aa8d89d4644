"""The environment variable that switches all callbacks of this package off."""

import os

from lightning_gpuprof.adapters.callback_hooks import HOOKS
from lightning_gpuprof.adapters.lightning import Callback

VARIABLE = "LIGHTNING_GPUPROF"
_OFF = ("off", "0", "false", "no")


def is_off() -> bool:
    """Return whether the environment switches this package off: `LIGHTNING_GPUPROF=off`."""
    return os.environ.get(VARIABLE, "").strip().lower() in _OFF


def switch_off(callback: Callback) -> None:
    """Make a Trainer skip all hooks of a callback: it calls none that is not callable."""
    callback.__dict__.update(dict.fromkeys(HOOKS))
