"""Catches all exceptions, and nothing else does: what fails is switched off, training goes on."""

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

    At the first failure the traceback is logged, a `ProbeDisabled` is written to the owner's
    `_context`, and the owner's `_release()` or `release()` is called, which must restore whatever
    the owner has changed. From then on the owner's guarded hooks return None at once, except for
    `teardown` and `on_exception`, in which sessions end. `setup` enables the owner again.

    `ConfigError`, `KeyboardInterrupt`, `SystemExit` and whatever the program's own signal handlers
    raise are not caught.
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
    """Wrap a function so that its failure disables an owner, as that of a `guarded` hook does.

    The owner's `_release` must make sure that the function is not called again.
    """

    def call_with_guard() -> None:
        try:
            call()
        except ConfigError:
            raise
        except Exception as error:
            if raised_by_signal_handler(error):
                raise
            disable(owner, error)

    return call_with_guard


def enable(owner: object) -> None:
    """Switch an owner on again for a new run, if a failure switched it off in the last run."""
    owner.__dict__.pop(_DISABLED, None)


def is_disabled(owner: object) -> bool:
    """Return whether a failure switched this owner off for the run."""
    return _DISABLED in owner.__dict__


def disable(owner: Any, error: BaseException) -> None:
    """Switch an owner off for the run, and show and record the error if it is the first."""
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
    """Return the result of `read`, or `otherwise` if it fails. For facts that may be missing."""
    try:
        return read()
    except Exception as error:
        if raised_by_signal_handler(error):
            raise
        return otherwise


def raised_by_signal_handler(error: BaseException) -> bool:
    """Return whether an error came from a signal handler, such as that of a time limit.

    The handler happened to run during this package's code, but it belongs to the program, and the
    program must receive its error.
    """
    handlers = [signal.getsignal(number) for number in signal.valid_signals()]
    codes = {
        getattr(handler, "__code__", getattr(type(handler).__call__, "__code__", None))
        for handler in handlers
        if callable(handler)
    }
    return any(frame.f_code in codes for frame, _ in traceback.walk_tb(error.__traceback__))


def text_of(error: BaseException) -> str:
    """Return the class and the text of an error, even if its `__str__` fails.

    >>> text_of(ValueError("boom"))
    'ValueError: boom'
    """
    return f"{type(error).__name__}: {attempt(lambda: str(error), '(its text cannot be read)')}"


@contextmanager
def interrupts_wait() -> Iterator[None]:
    """Delay Ctrl-C until the body has ended, if SIGINT has a handler that is written in Python."""
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
