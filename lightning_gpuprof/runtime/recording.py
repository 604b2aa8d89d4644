"""The base class of callbacks that write records: it joins a session and leaves it."""

from functools import partial
from typing import Any

from typing_extensions import override

from lightning_gpuprof.adapters.lightning import Callback, LightningModule, Trainer
from lightning_gpuprof.runtime.context import RunContext, SlowDownListener, StepTiming, status_of
from lightning_gpuprof.runtime.guard import guarded
from lightning_gpuprof.runtime.hooks import silence_unused
from lightning_gpuprof.runtime.switch import is_off, switch_off


class RecordingCallback(Callback):
    """A callback that takes part in a session, from `setup` until the stage ends.

    However the stage ends, `_release` is called, in which a subclass restores whatever it has
    changed, and the session is ended by this or another callback. If an exception ends the stage,
    `_rescue` is called before that, since Lightning does not call `on_train_end`.
    """

    _of_a_run: tuple[str, ...] = ()
    """Attributes that only exist during a run. In a copy of the callback they are None."""

    def __init__(self) -> None:
        self._context: RunContext | None = None
        self._timing: StepTiming | None = None
        silence_unused(self)
        if is_off():
            switch_off(self)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | dict.fromkeys(self._of_a_run)

    def use_timing(self, timing: StepTiming) -> None:
        """Receive the timing of the session that is being set up."""
        self._timing = timing

    @override
    @guarded
    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        self._context = RunContext.of(trainer) if stage == "fit" else None
        if self._context is not None:
            self._context.at_end(partial(self._session_ends, trainer))

    @override
    @guarded
    def on_exception(
        self, trainer: Trainer, pl_module: LightningModule, exception: BaseException
    ) -> None:
        """Save what was measured. After this, which Ctrl-C causes too, there is no `teardown`."""
        self._leave(exception)

    @override
    @guarded
    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        self._leave(None)

    def _leave(self, error: BaseException | None) -> None:
        if self._context is not None:
            self._context.end(status_of(error), error=error)
        self._release()

    @guarded
    def _session_ends(self, trainer: Trainer, status: str, error: BaseException | None) -> None:
        try:
            if error is not None:
                self._rescue(trainer, error)
        finally:
            self._release()
            self._timing = None

    def _rescue(self, trainer: Trainer, exception: BaseException) -> None:
        """Write the records that would be lost because of an exception."""

    def _release(self) -> None:
        """Restore whatever was changed. May be called twice."""


def slow_down_listeners(trainer: Trainer) -> list[SlowDownListener]:
    """Return the callbacks of a Trainer that want to know when training has become slower."""
    callbacks: list[Callback] = trainer.callbacks  # type: ignore[attr-defined]
    parts = [part for host in callbacks for part in (host, *getattr(host, "parts", ()))]
    return [part for part in parts if isinstance(part, SlowDownListener)]


def offer_timing(trainer: Trainer, timing: StepTiming) -> None:
    """Hand the timing of a session to all callbacks of a Trainer that write records."""
    callbacks: list[Callback] = trainer.callbacks  # type: ignore[attr-defined]
    for callback in callbacks:
        for part in (callback, *getattr(callback, "parts", ())):
            if isinstance(part, RecordingCallback):
                part.use_timing(timing)
