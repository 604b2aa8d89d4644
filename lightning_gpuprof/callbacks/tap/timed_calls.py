"""Puts a region around single methods of single objects for the length of a run."""

import types
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from typing_extensions import override


class TimedCall:
    """Stands in for a bound method: calls it inside a region.

    A copy of its owner (pickle, deepcopy) gets the plain method back.
    """

    def __init__(self, owner: object, name: str, region: AbstractContextManager[Any]) -> None:
        self.owner = owner
        self.name = name
        self.original: Callable[..., Any] = getattr(owner, name)
        self._region = region

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the method inside the region."""
        with self._region:
            return self.original(*args, **kwargs)

    @override
    def __reduce__(self) -> tuple[Callable[..., Any], tuple[object, str]]:
        return _plain_method, (self.owner, self.name)


class LoggingCall(TimedCall):
    """The same of a call that logs; samples of the stack know it by the name of its function."""

    def call_to_log(self, *args: Any, **kwargs: Any) -> Any:
        """Call the method inside the region."""
        with self._region:
            return self.original(*args, **kwargs)

    __call__ = call_to_log


class TimedCalls:
    """The methods that are being timed, to be put back when the run ends."""

    def __init__(self) -> None:
        self._calls: list[TimedCall] = []

    def add(
        self,
        owner: object,
        name: str,
        region: AbstractContextManager[Any],
        kind: type[TimedCall] = TimedCall,
    ) -> None:
        """Time a method of one object from now on; an object that refuses is left alone."""
        if not callable(getattr(owner, name, None)):
            return
        if isinstance(getattr(owner, name), TimedCall):
            return
        call = kind(owner, name, region)
        try:
            setattr(owner, name, call)
        except (AttributeError, TypeError):
            return
        self._calls.append(call)

    def restore(self) -> None:
        """Put every method back as it was, except where somebody else has replaced it since."""
        while self._calls:
            call = self._calls.pop()
            mine = getattr(call.owner, "__dict__", {}).get(call.name)
            if mine is not call:
                continue
            delattr(call.owner, call.name)
            if getattr(call.owner, call.name, None) != call.original:
                setattr(call.owner, call.name, call.original)


def untimed(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return the method itself where a region was put around it."""
    return method.original if isinstance(method, TimedCall) else method


def _plain_method(owner: object, name: str) -> Callable[..., Any]:
    return types.MethodType(getattr(type(owner), name), owner)
