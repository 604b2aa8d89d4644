"""Records the time before a stage, in which the data module makes its data."""

import time
from collections.abc import Callable
from typing import Any

from typing_extensions import override

from lightning_gpuprof.adapters.lightning import data_module_hooks
from lightning_gpuprof.recorders.recorder import Recorder
from lightning_gpuprof.records.facts import StageWork
from lightning_gpuprof.runtime.context import RunContext, StepTiming
from lightning_gpuprof.runtime.hooks import HookDispatcher


class StageWorkRecorder(Recorder):
    """Records the time before a stage in which `prepare_data` and `setup` of a data module run.

    The Trainer calls them for each stage before it calls any callback. The time is therefore that
    since the stage before, or for the first stage since this callback was made. It includes what
    the program itself does in between.

    Costs: two readings of a clock per stage.
    Touches: nothing.
    When: the beginning of every stage that has a data module with such hooks.

    Args:
        clock: Returns nanoseconds; tests pass a fake.
    """

    def __init__(self, *, clock: Callable[[], int] = time.perf_counter_ns) -> None:
        self._clock = clock
        self._since_ns = clock()
        self._before_ns: tuple[int, ...] = ()
        """What was waited before each stage so far."""

    @override
    def setup(self, context: RunContext, timing: StepTiming | None = None) -> None:
        if context is not self._context:
            self._before_ns += (max(0, self._clock() - self._since_ns),)
        super().setup(context, timing)

    @override
    def on_train_start(self, trainer: Any, hooks: HookDispatcher) -> None:
        owner, names = data_module_hooks(trainer)
        if self._context is not None and names:
            self._context.write(StageWork(owner, names, self._before_ns))

    @override
    def release(self) -> None:
        self._since_ns = self._clock()
