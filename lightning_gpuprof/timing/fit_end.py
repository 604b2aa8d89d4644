"""Notices the end of a fit for which Lightning calls no hook of this package's callbacks."""

import sys
from collections.abc import Callable
from typing import Any

from lightning_gpuprof.adapters.actions import ENDS, EXCEPTION_HOOK, Action
from lightning_gpuprof.adapters.lightning import Callback
from lightning_gpuprof.timing.regions import RegionLike


class FitEnd:
    """Ends the timing of a fit if Lightning calls no hook of the `host` at its end.

    That happens if the `on_exception` of another callback runs first and raises, and if the host
    was removed from `trainer.callbacks` during the fit.
    """

    def __init__(
        self, trainer: Any, host: Callback, end: Callable[[BaseException | None], object]
    ) -> None:
        self._trainer, self._host, self._end = trainer, host, end
        self._was_there = self._is_there()

    def is_host_removed(self) -> bool:
        """Return whether the host was removed from the Trainer's callbacks."""
        return self._was_there and not self._is_there()

    def end(self) -> None:
        """End the session, with the error that is being handled, if there is one."""
        self._end(sys.exc_info()[1])

    def around(self, action: Action, region: RegionLike) -> RegionLike:
        """Return the region of an action, with a check for the fit's end if it may be the last."""
        if action.name in ENDS and (action.kind != "Callback" or action.name == EXCEPTION_HOOK):
            return _LastAction(region, self, is_exception_hook=action.name == EXCEPTION_HOOK)
        return region

    def _is_there(self) -> bool:
        return any(callback is self._host for callback in self._trainer.callbacks)


class _LastAction:
    """The region of an action after which the fit may be over, without a hook of the host."""

    def __init__(self, region: RegionLike, fit_end: FitEnd, *, is_exception_hook: bool) -> None:
        self._region, self._fit_end = region, fit_end
        self._is_exception_hook = is_exception_hook

    def __enter__(self) -> Any:
        return self._region.__enter__()

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        self._region.__exit__(kind, error, trace)
        if self._fit_end.is_host_removed() or (self._is_exception_hook and error is not None):
            self._fit_end.end()
