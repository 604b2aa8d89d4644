"""Reads what callbacks leave in notes as a value of its own type."""

from collections.abc import Iterable
from typing import TypeVar

from msgspec import ValidationError, convert

from lightning_gpuprof.records.schema import Note

_T = TypeVar("_T")


def last_noted(notes: Iterable[Note], name: str, kind: type[_T]) -> _T | None:
    """Return the value of the last note of a name; None without one, or where it is no such value.

    >>> last_noted([Note(step=1, name="a", value=2), Note(step=3, name="a", value=4)], "a", int)
    4
    """
    values = [note.value for note in notes if note.name == name]
    try:
        return convert(values[-1], kind) if values else None
    except ValidationError:
        return None
