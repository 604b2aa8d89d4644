"""What was found in each of several batches."""

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

_T = TypeVar("_T")


def in_each(
    batches: Iterable[Iterable[_T]], key_of: Callable[[_T], Hashable]
) -> list[list[list[_T]]]:
    """Return what every batch has, by a key: for each key what of it each batch has.

    >>> in_each([["a1", "b1", "a2"], ["a3", "c1"]], lambda one: one[0])
    [[['a1', 'a2'], ['a3']]]
    """
    by_batch: list[dict[Hashable, list[_T]]] = []
    for found in batches:
        by_batch.append({})
        for one in found:
            by_batch[-1].setdefault(key_of(one), []).append(one)
    return [
        [batch[key] for batch in by_batch]
        for key in by_batch[-1]
        if all(key in batch for batch in by_batch)
    ]
