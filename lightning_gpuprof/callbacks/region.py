"""Regions of the user's own code inside a step."""

import functools
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ParamSpec, TypeVar

from lightning_gpuprof.probes.compiling import is_compiling

_P = ParamSpec("_P")
_R = TypeVar("_R")


class Part(AbstractContextManager[None]):
    """What a named component is entered as; ends with `__exit__` in the step in which it began."""

    @property
    def timed(self) -> bool:
        """Whether the step now running is marked: else to enter is to do nothing."""
        return True


class ActiveComponents:
    """The components of a run that is timing in this process, made as they are named."""

    def __init__(self, make: Callable[[str], Part]) -> None:
        self.thread = threading.get_ident()
        self._make = make
        self._made: dict[str, Part] = {}

    def get(self, name: str) -> Part:
        """Return the component of a name."""
        if name not in self._made:
            self._made[name] = self._make(name)
        return self._made[name]

    def activate(self) -> None:
        """Let `region` use these."""
        _ACTIVE.append(self)

    def deactivate(self) -> None:
        """Let `region` use those that it used before."""
        if self in _ACTIVE:
            _ACTIVE.remove(self)


class region:
    """Times a piece of code inside a step: `with region("dream"):` or `@region("dream")`.

    It shows as a part of the phase in which it runs, `forward/dream` as a rule, on the host and,
    where there are marks, the device, and as an NVTX range. It does nothing while no `PhaseTimer`
    is timing, in threads other than the one that trains, and in code being compiled.

    Args:
        name: The part's name.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._entered: list[AbstractContextManager[None]] = []

    def __enter__(self) -> None:
        if is_compiling():
            return
        component = _component(self.name)
        component.__enter__()
        self._entered.append(component)

    def __exit__(self, *raised: Any) -> None:
        if not is_compiling() and self._entered:
            self._entered.pop().__exit__(None, None, None)

    def __call__(self, function: Callable[_P, _R]) -> Callable[_P, _R]:
        """Time each call of a function."""
        name = self.name

        @functools.wraps(function)
        def timed(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            with region(name):
                return function(*args, **kwargs)

        return timed


_ACTIVE: list[ActiveComponents] = []


def _component(name: str) -> AbstractContextManager[None]:
    if not _ACTIVE or _ACTIVE[-1].thread != threading.get_ident():
        return nullcontext()
    return _ACTIVE[-1].get(name)
