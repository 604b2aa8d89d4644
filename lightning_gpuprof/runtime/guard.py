"""The one place that catches every exception: a failing recorder goes off, training goes on."""

import functools
import logging
import signal
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Concatenate, ParamSpec, TypeVar

from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.records.schema import ProbeDisabled
from lightning_gpuprof.runtime.console import say

_P = ParamSpec("_P")
_R = TypeVar("_R")
_D = TypeVar("_D")
_Owner = TypeVar("_Owner")
_DISABLED = "_guard_disabled"


def guarded(
    hook: Callable[Concatenate[_Owner, _P], _R],
) -> Callable[Concatenate[_Owner, _P], _R | None]:
    """Wrap a hook so that its failure disables its owner for the run instead of ending training.

    The first failure is logged with its traceback, writes `ProbeDisabled` to the owner's `_context`
    and calls its `_release()` or `release()`, which must put back whatever it changed. Then its
    guarded hooks return None at once, except for `teardown` and `on_exception`, in which sessions
    end; `setup` enables it again. `ConfigError` is raised, as are `KeyboardInterrupt`, `SystemExit`
    and what the program's handler of a signal raises.
    """
    begins_run = hook.__name__ == "setup"
    ends_run = hook.__name__ in ("teardown", "on_exception")

    @functools.wraps(hook)
    def guarded_hook(self: _Owner, /, *args: _P.args, **kwargs: _P.kwargs) -> _R | None:
        if begins_run:
            self.__dict__.pop(_DISABLED, None)
        elif _DISABLED in self.__dict__ and not ends_run:
            return None
        try:
            return hook(self, *args, **kwargs)
        except ConfigError:
            raise
        except Exception as error:
            if raised_by_signal_handler(error):
                raise
            disable(self, error)
            return None

    return guarded_hook


def guarded_call(owner: object, call: Callable[[], object]) -> Callable[[], None]:
    """Return a call whose failure disables an owner, as that of a `guarded` hook does.

    The owner's `_release` must see to it that the call is not made again.
    """

    def guarded_call() -> None:
        try:
            call()
        except ConfigError:
            raise
        except Exception as error:
            if raised_by_signal_handler(error):
                raise
            disable(owner, error)

    return guarded_call


def enable(owner: object) -> None:
    """Switch an owner on again, for a new run, that a failure switched off in the last run."""
    owner.__dict__.pop(_DISABLED, None)


def is_disabled(owner: object) -> bool:
    """Return whether a failure switched this owner off for the run."""
    return _DISABLED in owner.__dict__


def disable(owner: Any, error: BaseException) -> None:
    """Switch a recorder off for the run, say why once, and write it to the run's records."""
    if is_disabled(owner):
        return
    setattr(owner, _DISABLED, True)
    name = str(getattr(owner, "guard_name", type(owner).__name__))
    text = "".join(traceback.format_exception(error))
    context: Any = getattr(owner, "_context", None)
    if context is not None:
        attempt(
            lambda: context.write(
                ProbeDisabled(step=context.step, probe=name, error=text_of(error), traceback=text)
            ),
            None,
        )
    release = getattr(owner, "_release", None) or getattr(owner, "release", None)
    if release is not None:
        attempt(release, None)
    message = (
        f"{name} failed and is off for the rest of this run; training goes on without it.\n{text}"
    )
    attempt(lambda: say(message, logging.WARNING), None)  # the program's logging handlers may raise


def attempt(read: Callable[[], _R], otherwise: _D) -> _R | _D:
    """Return a call's result, or `otherwise` where it fails: for facts that may be missing."""
    try:
        return read()
    except Exception as error:
        if raised_by_signal_handler(error):
            raise
        return otherwise


def raised_by_signal_handler(error: BaseException) -> bool:
    """Return whether an error, such as that of a time limit, came from a signal handler.

    It was raised while this package's code ran, but is the program's own and has to reach it.
    """
    handlers = [signal.getsignal(number) for number in signal.valid_signals()]
    codes = {
        getattr(handler, "__code__", getattr(type(handler).__call__, "__code__", None))
        for handler in handlers
        if callable(handler)
    }
    return any(frame.f_code in codes for frame, _ in traceback.walk_tb(error.__traceback__))


def text_of(error: BaseException) -> str:
    """Return the class and the text of an error, whose `__str__` may fail.

    >>> text_of(ValueError("boom"))
    'ValueError: boom'
    """
    return f"{type(error).__name__}: {attempt(lambda: str(error), '(its text cannot be read)')}"


@contextmanager
def interrupts_wait() -> Iterator[None]:
    """Call SIGINT's handler only after the body, where it is a function of Python's."""
    handler = signal.getsignal(signal.SIGINT)
    if not callable(handler) or threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[tuple[int, FrameType | None]] = []
    signal.signal(signal.SIGINT, lambda number, frame: received.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if received:
            handler(*received[-1])
