"""Times steps by callback hooks alone, where a Trainer's profiler cannot be replaced."""

from collections.abc import Callable
from typing import Any

from typing_extensions import override

from lightning_gpuprof.adapters.lightning import Callback, LightningModule, Trainer
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.timing.step_timeline import EPOCH_START, TEARDOWN, StepTimeline

HOOK_PHASES = (
    Phase.DATA_WAIT,
    Phase.FORWARD,
    Phase.ZERO_GRAD,
    Phase.BACKWARD,
    Phase.OPTIMIZER_STEP,
    Phase.VALIDATION,
    Phase.OTHER,
)
"""`data_wait` is all from one batch's end to the next one's start: the copy to the device,
loggers, checkpoints and other callbacks too. `optimizer_step` holds clipping."""


class HookTiming(Callback):
    """Added to the Trainer's callbacks for one fit; each hook begins a phase.

    Args:
        trainer: The Trainer, in `setup`.
        timeline: Told of the borders of steps; its clock is charged.
        begins: Called when a training batch begins.
    """

    sees_batches = False

    def __init__(self, trainer: Any, timeline: StepTimeline, begins: Callable[[], object]) -> None:
        self._callbacks: list[Any] = trainer.callbacks
        self._timeline = timeline
        self._begins = begins
        self._callbacks.append(self)

    def time_manual_optimization(self) -> None:
        """Nothing: hooks tell no more of it."""

    def time_loader(self) -> None:
        """Nothing: what runs while hooks wait for data is not all the loader's."""

    def restore(self) -> None:
        """Leave the Trainer's callbacks."""
        if self in self._callbacks:
            self._callbacks.remove(self)

    def _begin(self, phase: Phase) -> None:
        clock = self._timeline.clock
        clock.swap(clock.slot(phase))

    @override
    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._timeline.outside_is(EPOCH_START)
        self._timeline.begin_epoch()
        self._timeline.begin_step()
        self._begin(Phase.DATA_WAIT)

    @override
    def on_train_batch_start(self, *args: Any) -> None:
        self._timeline.running_batch = True
        self._begins()
        self._begin(Phase.FORWARD)

    @override
    def on_before_zero_grad(self, *args: Any) -> None:
        self._begin(Phase.ZERO_GRAD)

    @override
    def on_before_backward(self, *args: Any) -> None:
        self._begin(Phase.BACKWARD)

    @override
    def on_after_backward(self, *args: Any) -> None:
        self._begin(Phase.OPTIMIZER_STEP)

    @override
    def on_train_batch_end(self, *args: Any) -> None:
        self._timeline.running_batch = False
        self._begin(Phase.DATA_WAIT)
        self._timeline.begin_step()

    @override
    def on_validation_start(self, *args: Any) -> None:
        self._begin(Phase.VALIDATION)

    @override
    def on_validation_end(self, *args: Any) -> None:
        self._begin(Phase.DATA_WAIT)

    @override
    def on_train_epoch_end(self, *args: Any) -> None:
        self._timeline.end_epoch()
        self._begin(Phase.OTHER)

    @override
    def on_train_end(self, *args: Any) -> None:
        self._timeline.outside_is(TEARDOWN)
