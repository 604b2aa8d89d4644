"""Wraps methods and functions of other packages for a while, and restores them."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial, wraps
from threading import get_ident
from typing import Any

from typing_extensions import override

from lightning_gpuprof.runtime.guard import attempt

_MISSING = object()


class Wrappers:
    """Replaces attributes of objects, classes and modules, and restores them in reverse order.

    An attribute that other code has replaced in the meantime is left as it is.

    >>> class Target: greeting = "hello"
    >>> wrappers = Wrappers()
    >>> wrappers.replace(Target, "greeting", lambda original: original.upper())
    >>> Target.greeting
    'HELLO'
    >>> wrappers.restore(); Target.greeting
    'hello'
    """

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []

    def replace(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        """Replace an attribute by what `make` returns for its value, if the attribute exists."""
        original = getattr(owner, name, None)
        if original is not None:
            self._put(owner, name, make(original))

    def call_instead(self, owner: Any, name: str, call: Callable[..., Any]) -> None:
        """Replace a function by `call`, which receives the original and then the arguments."""

        def make(original: Any) -> Any:
            return wraps(original)(lambda *args, **more: call(original, *args, **more))

        self.replace(owner, name, make)

    def call_after(self, owner: Any, name: str, call: Callable[[], object]) -> None:
        """Call a function after every call of a method, even if the method raises."""
        self.call_inside(owner, name, _After(call))

    def call_inside(
        self,
        owner: Any,
        name: str,
        region: AbstractContextManager[Any],
        kind: "type[CallInside] | None" = None,
    ) -> None:
        """Call a method inside a region from now on, if its object allows it to be replaced."""
        attempt(partial(self._put_inside, owner, name, region, kind or CallInside), None)

    def restore(self) -> None:
        """Restore all attributes."""
        while self._undo:
            self._undo.pop()()

    def _put_inside(
        self, owner: Any, name: str, region: AbstractContextManager[Any], kind: "type[CallInside]"
    ) -> None:
        if callable(getattr(owner, name, None)):
            self._put(owner, name, kind(owner, name, region))

    def _put(self, owner: Any, name: str, replacement: Any) -> None:
        before = vars(owner).get(name, _MISSING)
        _write(owner, name, replacement)
        # Some proxies, such as those of wrapt, hand an attribute on to the object behind them. Its
        # method would then call itself for ever.
        if getattr(owner, name, None) is not replacement:
            _write(owner, name, before)
            return

        def undo() -> None:
            if vars(owner).get(name) is replacement:
                _write(owner, name, before)

        self._undo.append(undo)


class CallInside:
    """Takes the place of a bound method and calls it inside a region.

    Calls from other threads, such as those of an experiment tracker, are made without the region,
    since they are not part of a step's time. A copy of the owner (by pickle or deepcopy) has the
    original method, so that a pickle does not refer to this package.
    """

    def __init__(self, owner: object, name: str, region: AbstractContextManager[Any]) -> None:
        self.owner = owner
        self.name = name
        self.original: Callable[..., Any] = getattr(owner, name)
        self._region = region
        self._thread = get_ident()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the method, inside the region if the training thread calls it."""
        if get_ident() != self._thread:
            return self.original(*args, **kwargs)
        with self._region:
            return self.original(*args, **kwargs)

    @override
    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return getattr, (self.owner, self.name)


class LoggingCall(CallInside):
    """A call that logs. Stack samples recognize it by the function name `call_to_log`."""

    def call_to_log(self, *args: Any, **kwargs: Any) -> Any:
        """Call the method as `CallInside` does."""
        return super().__call__(*args, **kwargs)

    __call__ = call_to_log


def unwrapped(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return the original of a method that is called inside a region, or the method as it is."""
    return method.original if isinstance(method, CallInside) else method


class _After:
    """A region that calls a function when it closes."""

    def __init__(self, after: Callable[[], object]) -> None:
        self._after = after

    def __enter__(self) -> None: ...

    def __exit__(self, *raised: object) -> None:
        self._after()


def _write(owner: Any, name: str, value: Any) -> None:
    """Set an attribute in the owner's own dict, or delete it if the value is `_MISSING`.

    `setattr` is used only for a class, because a proxy may hand it on to the object behind it.
    """
    attributes = vars(owner)
    if not isinstance(attributes, dict):  # that of a class is read-only
        delattr(owner, name) if value is _MISSING else setattr(owner, name, value)
    elif value is _MISSING:
        attributes.pop(name, None)
    else:
        attributes[name] = value
