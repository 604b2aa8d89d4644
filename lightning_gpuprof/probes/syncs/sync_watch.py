"""Watches for host syncs: calls that make the host wait until the device has caught up."""

from collections.abc import Callable, Iterable
from typing import Any, Protocol

import torch


class Seen(Protocol):
    """A sync that was reported; the watch adds how long it took where it can tell."""

    blocked_ns: int | None


Report = Callable[[str], Seen | None]
"""Called with the operation's name while the call that syncs is on the Python stack."""


class SyncWatch(Protocol):
    """Reports each host sync of the thread that started it."""

    @property
    def would_sync(self) -> bool:
        """What is reported would sync on a GPU, but does not here."""
        ...

    def start(self) -> bool:
        """Begin to watch; returns False, having changed nothing, where that is not possible."""
        ...

    def stop(self) -> None:
        """Watch no more and put everything back; does nothing where not started."""
        ...


class Patches:
    """Functions of others that are replaced for a while.

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
        """Replace an attribute by what `wrap` makes of it; one that is not there is left out."""
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

    def restore(self) -> None:
        """Put everything back, last first."""
        while self._undo:
            self._undo.pop()()


def synchronize_calls() -> Iterable[tuple[Any, str]]:
    """Return where torch keeps its functions that wait for a whole device or stream."""
    for module in ("cuda", "cpu", "xpu", "mps", "accelerator"):
        yield getattr(torch, module, None), "synchronize"
    yield torch.cuda.Stream, "synchronize"
    yield torch.cuda.Event, "synchronize"
