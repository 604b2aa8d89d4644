"""Sees that a fit ends without this package's callbacks being told."""

import sys
from collections.abc import Callable
from typing import Any

from lightning_gpuprof.adapters.actions import ENDS, EXCEPTION_HOOK, Action
from lightning_gpuprof.adapters.lightning import Callback
from lightning_gpuprof.timing.regions import Context


class FitEnd:
    """Ends the timing of a fit whose end its callback (the `host`) does not see.

    So it is where another callback's `on_exception` comes first and raises, and where the callback
    was taken out of `trainer.callbacks` amid the fit.
    """

    def __init__(
        self, trainer: Any, host: Callback, end: Callable[[BaseException | None], object]
    ) -> None:
        self._trainer, self._host, self._end = trainer, host, end
        self._was_there = self._is_there()

    def gone(self) -> bool:
        """Tell whether the callback is no longer one of the Trainer's."""
        return self._was_there and not self._is_there()

    def end(self) -> None:
        """End the session; an error that passes or is being handled has ended the fit."""
        self._end(sys.exc_info()[1])

    def around(self, action: Action, context: Context) -> Context:
        """Return the context of an action, which looks around after one of the last of a fit."""
        if action.name in ENDS and (action.kind != "Callback" or action.name == EXCEPTION_HOOK):
            return _Last(context, self, told=action.name == EXCEPTION_HOOK)
        return context

    def _is_there(self) -> bool:
        return any(one is self._host for one in self._trainer.callbacks)


class _Last:
    """An action after which nobody may be told of the end."""

    def __init__(self, context: Context, fit_end: FitEnd, *, told: bool) -> None:
        self._context, self._fit_end, self._told = context, fit_end, told

    def __enter__(self) -> Any:
        return self._context.__enter__()

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        self._context.__exit__(kind, error, trace)
        if self._fit_end.gone() or (self._told and error is not None):
            self._fit_end.end()
