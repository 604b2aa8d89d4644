"""Names of Lightning, from the package `lightning` or `pytorch_lightning`.

Both packages hold the same classes under different module paths, and installing `lightning` brings
both. A Trainer calls the hooks of callbacks by name, but some of what it does with them, and all of
LightningCLI, asks for the class of its own package. Therefore `Callback` and `TQDMProgressBar` are
subclasses of the classes of each package that the program has imported. Where it imports a second
package later, that becomes a base class when the next callback is created. Nothing here may use
`isinstance` with a class of one package; `is_kind` takes its place.

Private names in Lightning 2.4 to 2.6, and what happens without them:
    epoch_loop._results.batch, and that of evaluations: the sizes of batches are unknown
    epoch_loop._batches_that_stepped: scalars are logged under `global_step`
    epoch_loop._broadcast_sigterm_tensor (2.6): the ranks' wait for it has no part of its own
    a result's _forward_cache: a progress bar does not show values that are logged in steps
    epoch_loop._results, val_loop._results: what `self.log` was called with is unknown
    fit_loop._should_accumulate: every batch counts as one with an optimizer step
    a logger's _root_dir, _save_dir: in a child process of `try` the logger logs nothing
    a model's _trainer: the model that `plan` copies has no Trainer
    trainer._detect_anomaly: anomaly detection counts as off
    strategy._ddp_kwargs: DDP counts as not looking for unused parameters
    val_loop._max_batches: the length of a validation is unknown
"""

import os
import sys
from collections.abc import Callable
from importlib import import_module
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from lightning_gpuprof.adapters.frames import LIGHTNING_PACKAGES

PACKAGES = ("lightning.pytorch", "pytorch_lightning")


def packages_in_use() -> list[Any]:
    """Return the packages of Lightning that the program has imported, or else the first there is.

    Raises:
        ImportError: Neither package can be imported.
    """
    loaded = [sys.modules[name] for name in PACKAGES if name in sys.modules]
    complete = [package for package in loaded if hasattr(package, "Trainer")]
    if complete:
        return complete
    try:
        return [import_module(PACKAGES[0])]
    except ImportError:
        return [import_module(PACKAGES[1])]


if TYPE_CHECKING:
    from lightning.pytorch import Callback as Callback
    from lightning.pytorch import LightningModule as LightningModule
    from lightning.pytorch import Trainer as Trainer
    from lightning.pytorch.callbacks import TQDMProgressBar as TQDMProgressBar
    from lightning.pytorch.profilers import Profiler as Profiler
else:
    _packages = packages_in_use()
    LightningModule, Trainer = _packages[0].LightningModule, _packages[0].Trainer
    Profiler = _packages[0].profilers.Profiler

    class _OfEachPackage:
        """Has its namesakes in the packages of Lightning as base classes, those in use by now."""

        def __new__(cls, *args: Any, **kwargs: Any) -> Any:
            if len(packages_in_use()) > len(_packages):
                _packages.extend(p for p in packages_in_use() if p not in _packages)
                for joined in _OfEachPackage.__subclasses__():
                    joined.__bases__ = _OfEachPackage, *_namesakes(joined.__name__)
            return super().__new__(cls)

    def _namesakes(name: str) -> list[type]:
        return [getattr(package.callbacks, name) for package in _packages]

    class Callback(_OfEachPackage, *_namesakes("Callback")):
        """The base class of callbacks."""

    class TQDMProgressBar(_OfEachPackage, *_namesakes("TQDMProgressBar")):
        """Lightning's default progress bar."""


TRAINER_SETTINGS = (
    "max_epochs", "max_steps", "accumulate_grad_batches", "gradient_clip_val", "num_nodes",
    "num_devices", "log_every_n_steps", "check_val_every_n_epoch", "val_check_interval",
    "limit_train_batches", "overfit_batches", "fast_dev_run", "barebones",
)  # fmt: skip
"""Attributes of a Trainer that are recorded."""
LOGGING_METHODS = ("log_metrics", "log_hyperparams", "log_graph", "save")
"""The methods of a logger that take time: those in the middle once, as training starts."""
EXPERIMENT_LOGS = ("add_", "log")
"""Prefixes of the logging methods of a logger's `experiment`, of TensorBoard and of others."""
FILE_LOGGERS = ("TensorBoardLogger", "CSVLogger")
"""Loggers that write files, whose calls take microseconds. Calls of a server take milliseconds."""
STOP_CHECK_METHOD = "_broadcast_sigterm_tensor"
"""A method of the epoch loop: between steps, rank 0 informs the others whether it has received
SIGTERM."""
STAGE_HOOKS = ("prepare_data", "setup")
"""Hooks of a data module that the Trainer calls for each stage, before it sets up any callback."""


def is_kind(thing: object, class_name: str) -> bool:
    """Return whether the class of an object, or a base class of it, has this name.

    >>> is_kind(True, "int"), is_kind("", "int")
    (True, False)
    """
    return any(base.__name__ == class_name for base in type(thing).__mro__)


def hook_of(owner: Any, name: str) -> str:
    """Return the qualified name of a hook if its code is Lightning's, otherwise an empty string.

    >>> hook_of(Callback(), "on_fit_start"), hook_of("", "join")
    ('Callback.on_fit_start', '')
    """
    hook = getattr(owner, name, None)
    module = str(getattr(hook, "__module__", ""))
    if not module.startswith(tuple(f"{name}." for name in PACKAGES)):
        return ""
    return str(getattr(hook, "__qualname__", ""))


def does_nothing(profiler: Any) -> bool:
    """Return whether a profiler is Lightning's `PassThroughProfiler`, or acts like it."""
    return is_kind(profiler, "PassThroughProfiler") and all(
        hook_of(profiler, name) for name in ("start", "stop", "profile")
    )


def stage_of(trainer: Any) -> str:
    """Return the Trainer's current or last stage: fit, validate, test or predict."""
    return "fit" if trainer.state.fn is None else str(trainer.state.fn.value)


def data_loop(trainer: Any) -> Any:
    """Return the loop that has the loaders: that of the fit or of the evaluation."""
    return getattr(trainer, f"{stage_of(trainer)}_loop")


def data_module_hooks(trainer: Any) -> tuple[str, tuple[str, ...]]:
    """Return the class of a Trainer's data module, and its own hooks that run before each stage."""
    kind = type(getattr(trainer, "datamodule", None))
    methods = {name: getattr(kind, name, None) for name in STAGE_HOOKS}
    own = [
        name
        for name, method in methods.items()
        if method is not None and method.__module__.split(".")[0] not in LIGHTNING_PACKAGES
    ]
    return kind.__name__, tuple(own)


def batch_loop(trainer: Any) -> Any:
    """Return the loop over batches: that of a fit's epochs or of the evaluation."""
    loop = data_loop(trainer)
    return getattr(loop, "epoch_loop", loop)


def batch_holder(trainer: Any) -> Any:
    """Return an object whose `batch` is the current batch, or None if that is unknown."""
    results = getattr(batch_loop(trainer), "_results", None)
    return results if hasattr(results, "batch") else SimpleNamespace(batch=None)


def logging_step(trainer: Any) -> int:
    """Return the step under which Lightning itself would log now."""
    steps = getattr(trainer.fit_loop.epoch_loop, "_batches_that_stepped", None)
    return int(trainer.global_step if steps is None else steps)


def users_profiler(trainer: Any) -> Any:
    """Return the user's own profiler, even while a proxy of this package is in its place."""
    return getattr(trainer.profiler, "_inner", trainer.profiler)


def logged_results(loop: Any) -> Any:
    """Return the values that `self.log` has received in a loop, by key; empty if unknown."""
    results = getattr(loop, "_results", None)
    return {} if results is None else results


def step_value(result: Any) -> Any:
    """Return the last step's value of a metric of `self.log`, or None if it is unknown."""
    return getattr(result, "_forward_cache", None)


def accumulates(trainer: Any) -> bool:
    """Return whether the optimizer waits for the gradients of further batches."""
    ask = getattr(trainer.fit_loop, "_should_accumulate", None)
    return bool(ask and ask())


def detects_anomaly(trainer: Any) -> bool:
    """Return whether the Trainer was created with `detect_anomaly=True`."""
    return bool(getattr(trainer, "_detect_anomaly", False))


def finds_unused_parameters(trainer: Any) -> bool:
    """Return whether DDP was asked to look for parameters without a gradient in each step."""
    return bool(getattr(trainer.strategy, "_ddp_kwargs", {}).get("find_unused_parameters"))


def keeps_predictions(trainer: Any) -> tuple[bool, str | None]:
    """Return what keeps the outputs of `predict` until it ends.

    That is whether the Trainer returns them, and the class of a `BasePredictionWriter` that
    receives all of them at the end of the epoch, or None.
    """
    callbacks = (c for c in trainer.callbacks if is_kind(c, "BasePredictionWriter"))
    writers = (type(c).__name__ for c in callbacks if c.interval.on_epoch)
    return bool(trainer.predict_loop.return_predictions), next(writers, None)


def validation_batches(trainer: Any) -> list[int | float]:
    """Return the number of batches that a validation takes from every loader; empty if unknown."""
    return list(getattr(trainer.fit_loop.epoch_loop.val_loop, "_max_batches", None) or ())


TAKES_FILES: dict[str, Callable[[Any, str], object]] = {
    "WandbLogger": lambda logger, path: logger.experiment.save(
        path, base_path=os.path.dirname(path), policy="now"
    ),
    "MLFlowLogger": lambda logger, path: logger.experiment.log_artifact(logger.run_id, path),
}
"""By kind of logger, how it receives a file. Other loggers take no files."""


def writes_files(logger: Any) -> bool:
    """Return whether a logger writes files, so that it is fast enough to receive every step."""
    return any(is_kind(logger, kind) for kind in FILE_LOGGERS)


def can_be_moved(logger: Any) -> bool:
    """Return whether a logger's folder can be changed before it writes."""
    return writes_files(logger) and hasattr(logger, "_root_dir")


def share_trainer(model: Any, copy: Any) -> None:
    """Give a copy of a model the Trainer of the original, and let the copy log nothing.

    A copy of a LightningModule has no Trainer, and would warn in each `self.log`.
    """
    for original_part, part in zip(model.modules(), copy.modules(), strict=True):
        if is_kind(part, "LightningModule"):
            part._trainer = getattr(original_part, "_trainer", None)
            vars(part)["log"] = vars(part)["log_dict"] = lambda *args, **options: None


def silent_logger() -> Any:
    """Return a logger that accepts all calls, also those of its `experiment`, and does nothing."""
    return packages_in_use()[0].loggers.logger.DummyLogger()


def moved_logger(logger: Any, folder: str) -> Any:
    """Let a logger write into another folder. Return it, or a dummy if it cannot be redirected."""
    if not can_be_moved(logger):
        return silent_logger()
    for name in ("_root_dir", "_save_dir"):
        if hasattr(logger, name):
            setattr(logger, name, folder)
    return logger
