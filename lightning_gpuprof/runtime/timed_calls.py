"""Puts a region around single methods of single objects for the length of a run."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from threading import get_ident
from typing import Any

from typing_extensions import override

from lightning_gpuprof.runtime.guard import attempt, guarded


class TimedCall:
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


class LoggingCall(TimedCall):
    """The same of a call that logs; samples of the stack know it by the name of its function."""

    def call_to_log(self, *args: Any, **kwargs: Any) -> Any:
        """Call the method as `TimedCall` does."""
        return super().__call__(*args, **kwargs)

    __call__ = call_to_log


class After:
    """Does something after a call, also where it fails."""

    def __init__(self, after: Callable[[], object]) -> None:
        self._after = after

    def __enter__(self) -> None: ...

    def __exit__(self, *raised: object) -> None:
        self._after()


class TimedCalls:
    """The methods that are being timed, to be put back when the run ends.

    One object has those of all parts: two may time the same method, and the last is put back first.
    """

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
        attempt(partial(self._add, owner, name, region, kind), None)

    def restore(self) -> None:
        """Put every method back as it was, except where somebody else has replaced it since."""
        while self._calls:
            call = self._calls.pop()
            own = vars(call.owner)
            if own.get(call.name) is not call:
                continue
            del own[call.name]
            if getattr(call.owner, call.name, None) != call.original:
                own[call.name] = call.original

    def _add(
        self,
        owner: object,
        name: str,
        region: AbstractContextManager[Any],
        kind: type[TimedCall],
    ) -> None:
        method = getattr(owner, name, None)
        if not callable(method):
            return
        call = kind(owner, name, region)
        # Not by `setattr`: a proxy may hand that on to the object that its own method calls. Nor
        # where `vars` is that object's (wrapt's proxies), whose method would call itself for ever.
        own = vars(owner)
        before = own.get(name)
        own[name] = call
        if getattr(owner, name, None) is call:
            self._calls.append(call)
        elif before is None:
            del own[name]
        else:
            own[name] = before


def untimed(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return the method itself where a region was put around it."""
    return method.original if isinstance(method, TimedCall) else method


class SafeLogger:
    """Hands values on to a logger until that fails: then it gets no more, and the user is told."""

    def __init__(self, logger: Any, context: Any = None) -> None:
        self.logger = logger
        self._context = context
        self.guard_name = f"Logging to {type(logger).__name__}"

    @guarded
    def log(self, values: dict[str, float], step: int) -> None:
        """Hand values on, which is this package's own time, not what the user's logging takes."""
        untimed(self.logger.log_metrics)(values, step=step)

    @guarded
    def save(self) -> None:
        """Let the logger write its files."""
        untimed(self.logger.save)()
