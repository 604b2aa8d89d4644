"""Keeps validation, checkpoints and other callbacks' work out of a recording."""

from collections.abc import Callable, Iterator
from typing import Any

from lightning_gpuprof.session.hooks import HOOKS, PER_BATCH_HOOKS, has_hook
from lightning_gpuprof.session.timed_calls import TimedCalls


class Quiet:
    """Pauses a recording while any of these calls is under way; they may be nested."""

    def __init__(self, collect: Callable[[bool], None]) -> None:
        self._collect = collect
        self._depth = 0

    def __enter__(self) -> None:
        self._depth += 1
        if self._depth == 1:
            self._collect(False)

    def __exit__(self, *raised: object) -> None:
        self._depth -= 1
        if not self._depth:
            self._collect(True)


def keep_quiet(trainer: Any, calls: TimedCalls, collect: Callable[[bool], None]) -> None:
    """Have `collect` called with False before such work and with True behind it."""
    quiet = Quiet(collect)
    for owner, method in _loud(trainer):
        calls.add(owner, method, quiet)


def _loud(trainer: Any) -> Iterator[tuple[Any, str]]:
    yield trainer.fit_loop.epoch_loop.val_loop, "run"
    yield trainer, "save_checkpoint"
    # On a GPU each pause waits for the device: too often for what comes with each batch.
    often = () if trainer.strategy.root_device.type == "cpu" else PER_BATCH_HOOKS
    for callback in trainer.callbacks:
        if not type(callback).__module__.startswith("lightning_gpuprof."):
            yield from (
                (callback, hook) for hook in HOOKS if hook not in often and has_hook(callback, hook)
            )
