"""Functions of others that are replaced for a while."""

from collections.abc import Callable
from functools import wraps
from typing import Any


class Patches:
    """Replaces attributes and puts them back.

    >>> class Target: greeting = "hello"
    >>> patches = Patches()
    >>> patches.put(Target, "greeting", lambda original: original.upper())
    >>> Target.greeting
    'HELLO'
    >>> patches.restore(); Target.greeting
    'hello'
    """

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []

    def put(self, owner: Any, name: str, wrap: Callable[[Any], Any]) -> None:
        """Replace an attribute by the result of `wrap`; a missing one is left out."""
        original = getattr(owner, name, None)
        if original is None:
            return
        own = name in vars(owner)
        mine = wrap(original)
        setattr(owner, name, mine)

        def undo() -> None:
            if vars(owner).get(name) is not mine:
                return  # somebody else has replaced it since: theirs stays
            if own:
                setattr(owner, name, original)
            else:
                delattr(owner, name)

        self._undo.append(undo)

    def instead(self, owner: Any, name: str, do: Callable[..., Any]) -> None:
        """Replace a function by `do`, which is given the original before what it is called with."""

        def wrap(original: Any) -> Any:
            return wraps(original)(lambda *args, **more: do(original, *args, **more))

        self.put(owner, name, wrap)

    def restore(self) -> None:
        """Put everything back, last first."""
        while self._undo:
            self._undo.pop()()
