"""The interface of the recorders that `RunFacts` consists of."""

from typing import Any

from typing_extensions import override

from lightning_gpuprof.runtime.context import RunContext, StepTiming
from lightning_gpuprof.runtime.hooks import HookDispatcher


class Recorder:
    """Records a fact of a fit. A subclass overrides the hooks that it needs.

    It hands its record, one of those in `records/facts.py`, to `self._context.write`.

    If a recorder fails, it is switched off alone: `guard.disable` calls its `release`. A copy (by
    pickle or deepcopy) is a new recorder without a fit, because parts of a fit cannot be pickled.
    """

    _context: RunContext | None = None
    """None until `setup` is called."""
    _timing: StepTiming | None = None

    def setup(self, context: RunContext, timing: StepTiming | None = None) -> None:
        """Called when a fit is set up. `timing` is that of its `PhaseTimer`, if it has one."""
        self._context, self._timing = context, timing

    def on_train_start(self, trainer: Any, hooks: HookDispatcher) -> None:
        """Called when training begins.

        A `HookSet` that is added to `hooks` is called at further moments; `release` must drop it.
        """

    def on_first_batch_end(self, trainer: Any, outputs: Any, batch: Any) -> None:
        """Called after the first batch, with what its step returned."""

    def on_train_end(self, trainer: Any) -> None:
        """Called when training has ended without an exception."""

    def release(self) -> None:
        """Restore whatever was changed. May be called twice."""

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), ()
