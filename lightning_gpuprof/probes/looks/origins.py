"""What the tensors of a step were computed from, and which layers they came through."""

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

_MOST_JOINED = 3
"""What so many layers of a group gave may go on as one: a query, its key and its value."""

Group = tuple[str, tuple[str, str], tuple[int, ...], tuple[int, ...]]
"""Layers that could be one: function, file and name of the program's function that called it, shape
given, and shape of the weight (of a table its width)."""


class Origin(IntEnum):
    """What a tensor was computed from; of several the highest."""

    CONSTANT = 0
    WEIGHTS = 1
    DATA = 2


class Passed(NamedTuple):
    """Which layers of a group a tensor came through last."""

    level: int
    """How many others of the group it came through before."""
    numbers: frozenset[int] | None
    """None of more than go on as one."""


class Known(NamedTuple):
    """What is known of a tensor."""

    origin: Origin
    layers: dict[Group, Passed]
    """Groups of layers that it came through."""
    cells: frozenset[int] = frozenset()
    """Recurrent cells that it came through, by the number of their first weight."""
    weighted: bool = False
    """A parameter took part, trained or not."""
    drawn: bool = False
    """Random numbers took part, or what the model keeps and changes from batch to batch."""


def passed_through(known: Sequence[Known]) -> dict[Group, Passed]:
    """Return what a function of several tensors has come through."""
    if len(known) == 1:
        return known[0].layers
    through: dict[Group, Passed] = {}
    for one in known:
        for group, passed in one.layers.items():
            through[group] = _joined(through.get(group, passed), passed)
    return through


def _joined(one: Passed, other: Passed) -> Passed:
    """Return the later of two, or both where neither is."""
    if one.level != other.level:
        return max(one, other, key=lambda passed: passed.level)
    numbers = None
    if one.numbers is not None and other.numbers is not None:
        numbers = one.numbers | other.numbers
    return Passed(one.level, numbers if numbers and len(numbers) <= _MOST_JOINED else None)
