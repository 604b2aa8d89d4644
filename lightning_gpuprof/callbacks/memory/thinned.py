"""Keeps a bounded number of the values of a long run, evenly spread over it."""

from typing import Generic, TypeVar

_T = TypeVar("_T")
MOST = 64
"""Of so many all pairs are looked at in some 0.1 ms."""


class Thinned(Generic[_T]):
    """Keeps every value at first, later every second, fourth, and so on.

    Args:
        most: Fewer than this are kept.

    >>> thinned = Thinned[int](4)
    >>> for value in range(10):
    ...     thinned.add(value)
    >>> thinned.kept
    [0, 4, 8]
    """

    def __init__(self, most: int = MOST) -> None:
        self.kept: list[_T] = []
        self._most = most
        self._every, self._seen = 1, 0

    def add(self, value: _T) -> None:
        """Keep a value, if it is its turn."""
        if self._seen % self._every == 0:
            self.kept.append(value)
        self._seen += 1
        if len(self.kept) >= self._most:
            del self.kept[1::2]
            self._every *= 2
