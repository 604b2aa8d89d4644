"""The interface of the small recorders that `RunFacts` is made of."""

from typing import Any

from typing_extensions import override

from lightning_gpuprof.runtime.context import RunContext, StepTiming
from lightning_gpuprof.runtime.hooks import HookDispatcher


class Recorder:
    """Records one fact of a fit; a subclass overrides the moments that it needs.

    A failing recorder is switched off alone: `guard.disable` calls its `release`. A copy knows
    nothing of the fit, whose parts could not all be pickled.
    """

    _context: RunContext | None = None
    _timing: StepTiming | None = None

    def joins(self, context: RunContext, timing: StepTiming | None = None) -> None:
        """A fit is being set up; `timing` is that of its `PhaseTimer`, where it has one."""
        self._context, self._timing = context, timing

    def train_starts(self, trainer: Any, hooks: HookDispatcher) -> None:
        """Training begins; `hooks` are those of the callback that the Trainer calls."""

    def first_batch_ends(self, trainer: Any, batch: Any) -> None:
        """The first batch has been trained."""

    def train_ends(self, trainer: Any) -> None:
        """Training has ended without an exception."""

    def release(self) -> None:
        """Put back whatever was changed; it may be called twice."""

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), ()
