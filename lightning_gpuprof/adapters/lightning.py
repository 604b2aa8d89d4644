"""Lightning's names from the package in use: `lightning`, or else `pytorch_lightning`.

Where both are installed, the package that the program has imported is in use; see `_OTHER_IN_USE`.

Both packages hold the same classes under different module paths. A Trainer of one accepts a
callback of the other because it calls hooks by name; so nothing here may rely on `isinstance`
with a class of a fixed package: use `is_kind`.

Private names, seen in Lightning 2.4 to 2.6, and what happens without them:
    epoch_loop._results.batch, and of evaluations: batches are counted without their size
    epoch_loop._batches_that_stepped: scalars are logged under `global_step`
    epoch_loop._broadcast_sigterm_tensor (2.6): ranks' wait for it is not told apart
    a result's _forward_cache: a progress bar does not show values logged in steps
    epoch_loop._results, val_loop._results: nothing is known of what `self.log` was asked
    fit_loop._should_accumulate: batches are taken to step
    a logger's _root_dir, _save_dir: in a child of `try` it logs nothing
    trainer._detect_anomaly: anomaly detection counts as off
    val_loop._max_batches: a validation's length is unknown
"""

import os
import sys
from collections.abc import Callable
from importlib import import_module
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

_OTHER_IN_USE = "pytorch_lightning" in sys.modules and "lightning.pytorch" not in sys.modules

_package: Any
if TYPE_CHECKING:
    from lightning.pytorch import Callback as Callback
    from lightning.pytorch import LightningModule as LightningModule
    from lightning.pytorch import Trainer as Trainer
    from lightning.pytorch.callbacks import TQDMProgressBar as TQDMProgressBar
    from lightning.pytorch.profilers import Profiler as Profiler
else:
    try:
        _package = import_module("pytorch_lightning" if _OTHER_IN_USE else "lightning.pytorch")
    except ImportError:
        _package = import_module("pytorch_lightning")
    Callback, LightningModule = _package.Callback, _package.LightningModule
    Trainer, Profiler = _package.Trainer, _package.profilers.Profiler
    TQDMProgressBar = _package.callbacks.TQDMProgressBar

TRAINER_SETTINGS = (
    "max_epochs", "max_steps", "accumulate_grad_batches", "gradient_clip_val", "num_nodes",
    "num_devices", "log_every_n_steps", "check_val_every_n_epoch", "val_check_interval",
    "limit_train_batches", "overfit_batches", "fast_dev_run", "barebones",
)  # fmt: skip
"""Attributes of a Trainer that a run's records hold."""
LOGGING_METHODS = ("log_metrics", "save")
"""Methods of a logger in which it spends time."""
EXPERIMENT_LOGS = ("add_", "log")
"""How the methods of a logger's `experiment` begin that log something: TensorBoard's, others'."""
FILE_LOGGERS = ("TensorBoardLogger", "CSVLogger")
"""Loggers that write files, with calls of microseconds; calls to a server take milliseconds."""
STOP_CHECK_METHOD = "_broadcast_sigterm_tensor"
"""Of the epoch loop: between steps, rank 0 tells all others whether it was to stop by SIGTERM."""


def is_kind(thing: object, class_name: str) -> bool:
    """Tell whether an object's class, or one it derives from, has this name.

    >>> is_kind(True, "int"), is_kind("", "int")
    (True, False)
    """
    return any(base.__name__ == class_name for base in type(thing).__mro__)


def hook_of(owner: Any, name: str) -> str:
    """Return the qualified name of an owner's hook where it is Lightning's, else nothing.

    >>> hook_of(Callback(), "on_fit_start"), hook_of("", "join")
    ('Callback.on_fit_start', '')
    """
    hook = getattr(owner, name, None)
    module = str(getattr(hook, "__module__", ""))
    if not module.startswith(("lightning.pytorch.", "pytorch_lightning.")):
        return ""
    return str(getattr(hook, "__qualname__", ""))


def does_nothing(profiler: Any) -> bool:
    """Tell whether it is Lightning's that does nothing, or derived from it and does no more."""
    return is_kind(profiler, "PassThroughProfiler") and all(
        hook_of(profiler, name) for name in ("start", "stop", "profile")
    )


def stage_of(trainer: Any) -> str:
    """Return what a Trainer was last asked to do: fit, validate, test or predict."""
    return "fit" if trainer.state.fn is None else str(trainer.state.fn.value)


def data_loop(trainer: Any) -> Any:
    """Return the loop that has the loaders: the fit's, or an evaluation's own."""
    return getattr(trainer, f"{stage_of(trainer)}_loop")


def batch_loop(trainer: Any) -> Any:
    """Return the loop over batches: of a fit's epoch, or an evaluation's own."""
    loop = data_loop(trainer)
    return getattr(loop, "epoch_loop", loop)


def batch_holder(trainer: Any) -> Any:
    """Return the object whose `batch` is the batch that runs, None where unknown."""
    results = getattr(batch_loop(trainer), "_results", None)
    return results if hasattr(results, "batch") else SimpleNamespace(batch=None)


def logging_step(trainer: Any) -> int:
    """Return the step under which Lightning itself would log now."""
    steps = getattr(trainer.fit_loop.epoch_loop, "_batches_that_stepped", None)
    return int(trainer.global_step if steps is None else steps)


def users_profiler(trainer: Any) -> Any:
    """Return the user's own profiler, also while our proxy is in its place."""
    return getattr(trainer.profiler, "_inner", trainer.profiler)


def logged_results(loop: Any) -> Any:
    """Return the values that `self.log` was given in a loop, by key; empty where unknown."""
    results = getattr(loop, "_results", None)
    return {} if results is None else results


def step_value(result: Any) -> Any:
    """Return the value that a metric of `self.log` has for the last step; None where unknown."""
    return getattr(result, "_forward_cache", None)


def accumulates(trainer: Any) -> bool:
    """Tell whether the optimizer waits for more batches' gradients."""
    ask = getattr(trainer.fit_loop, "_should_accumulate", None)
    return bool(ask and ask())


def detects_anomaly(trainer: Any) -> bool:
    """Tell whether the Trainer was given `detect_anomaly=True`."""
    return bool(getattr(trainer, "_detect_anomaly", False))


def validation_batches(trainer: Any) -> list[int | float]:
    """Return how many batches a validation takes from each of its loaders; empty where unknown."""
    return list(getattr(trainer.fit_loop.epoch_loop.val_loop, "_max_batches", None) or ())


TAKES_FILES: dict[str, Callable[[Any, str], object]] = {
    "WandbLogger": lambda logger, path: logger.experiment.save(
        path, base_path=os.path.dirname(path), policy="now"
    ),
    "MLFlowLogger": lambda logger, path: logger.experiment.log_artifact(logger.run_id, path),
}
"""How a file is handed to the loggers that take files."""


def writes_files(logger: Any) -> bool:
    """Tell whether a logger writes files, so that it may get every step."""
    return any(is_kind(logger, kind) for kind in FILE_LOGGERS)


def moved_logger(logger: Any, folder: str) -> Any:
    """Let a logger write below a folder; a logger of another kind is replaced by a dummy."""
    if not writes_files(logger) or not hasattr(logger, "_root_dir"):
        return _package.loggers.logger.DummyLogger()
    for name in ("_root_dir", "_save_dir"):
        if hasattr(logger, name):
            setattr(logger, name, folder)
    return logger
