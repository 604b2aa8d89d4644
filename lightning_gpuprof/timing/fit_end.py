"""Notices the end of a fit of which Lightning does not tell this package's callbacks."""

import sys
from collections.abc import Callable
from typing import Any

from lightning_gpuprof.adapters.actions import ENDS, EXCEPTION_HOOK, Action
from lightning_gpuprof.adapters.lightning import Callback
from lightning_gpuprof.timing.regions import RegionLike


class FitEnd:
    """Ends the timing of a fit whose end the callback (the `host`) does not see.

    That happens where another callback's `on_exception` runs first and raises, and where the host
    was removed from `trainer.callbacks` during the fit.
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
        """End the session, with the error that is being raised or handled, if there is one."""
        self._end(sys.exc_info()[1])

    def around(self, action: Action, region: RegionLike) -> RegionLike:
        """Return the region of an action, which notices the fit's end where it may be the last."""
        if action.name in ENDS and (action.kind != "Callback" or action.name == EXCEPTION_HOOK):
            return _Last(region, self, is_exception_hook=action.name == EXCEPTION_HOOK)
        return region

    def _is_there(self) -> bool:
        return any(callback is self._host for callback in self._trainer.callbacks)


class _Last:
    """An action after which the fit may be over without this package's callbacks being told."""

    def __init__(self, region: RegionLike, fit_end: FitEnd, *, is_exception_hook: bool) -> None:
        self._region, self._fit_end = region, fit_end
        self._is_exception_hook = is_exception_hook

    def __enter__(self) -> Any:
        return self._region.__enter__()

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        self._region.__exit__(kind, error, trace)
        if self._fit_end.gone() or (self._is_exception_hook and error is not None):
            self._fit_end.end()
