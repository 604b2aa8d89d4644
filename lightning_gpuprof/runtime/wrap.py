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
    """Replaces attributes of objects, classes and modules, and puts them back, the last first.

    An attribute that somebody else has replaced in the meantime is not put back.

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
        """Replace an attribute by what `make` returns for it; do nothing where it is missing."""
        original = getattr(owner, name, None)
        if original is not None:
            self._put(owner, name, make(original))

    def call_instead(self, owner: Any, name: str, call: Callable[..., Any]) -> None:
        """Replace a function by `call`, which gets the original before the arguments."""

        def make(original: Any) -> Any:
            return wraps(original)(lambda *args, **more: call(original, *args, **more))

        self.replace(owner, name, make)

    def call_after(self, owner: Any, name: str, call: Callable[[], object]) -> None:
        """Call a function after each call of a method, also where the method raises."""
        self.call_inside(owner, name, _After(call))

    def call_inside(
        self,
        owner: Any,
        name: str,
        region: AbstractContextManager[Any],
        kind: "type[CallInside] | None" = None,
    ) -> None:
        """Call a method inside a region from now on; an object that refuses is left alone."""
        attempt(partial(self._put_inside, owner, name, region, kind or CallInside), None)

    def restore(self) -> None:
        """Put everything back."""
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
        # Some proxies show the attributes of the object they stand for as their own (wrapt's):
        # its method would call itself for ever.
        if getattr(owner, name, None) is not replacement:
            _write(owner, name, before)
            return

        def undo() -> None:
            if vars(owner).get(name) is replacement:
                _write(owner, name, before)

        self._undo.append(undo)


class CallInside:
    """Stands in for a bound method: calls it inside a region, in the thread that trains.

    What others call from threads of their own is not the step's time: trackers do so themselves.
    A copy of its owner (pickle, deepcopy) gets the plain method back, and names nothing of ours.
    """

    def __init__(self, owner: object, name: str, region: AbstractContextManager[Any]) -> None:
        self.owner = owner
        self.name = name
        self.original: Callable[..., Any] = getattr(owner, name)
        self._region = region
        self._thread = get_ident()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the method, in the thread that trains inside the region."""
        if get_ident() != self._thread:
            return self.original(*args, **kwargs)
        with self._region:
            return self.original(*args, **kwargs)

    @override
    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return getattr, (self.owner, self.name)


class LoggingCall(CallInside):
    """A call that logs; samples of the stack know it by the name of its function."""

    def call_to_log(self, *args: Any, **kwargs: Any) -> Any:
        """Call the method as `CallInside` does."""
        return super().__call__(*args, **kwargs)

    __call__ = call_to_log


def unwrapped(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return the method itself where a region was put around it."""
    return method.original if isinstance(method, CallInside) else method


class _After:
    """Calls a function after a call, also where that fails."""

    def __init__(self, after: Callable[[], object]) -> None:
        self._after = after

    def __enter__(self) -> None: ...

    def __exit__(self, *raised: object) -> None:
        self._after()


def _write(owner: Any, name: str, value: Any) -> None:
    """Set an attribute of the owner's own, or delete it where the value is `_MISSING`.

    Not by `setattr` where there is another way: a proxy may hand that on to the object that its
    own method calls.
    """
    own = vars(owner)
    if not isinstance(own, dict):  # a class's is read-only
        delattr(owner, name) if value is _MISSING else setattr(owner, name, value)
    elif value is _MISSING:
        own.pop(name, None)
    else:
        own[name] = value
