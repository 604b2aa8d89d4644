"""Cleans texts from files of what could control a terminal or forge a line of a report.

Names of kernels, functions, files and runs are what a program, or whoever made a file, chose. The
sections of a document are cleaned as they are made, so no renderer needs to.
"""

import re
from collections.abc import Mapping
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import force_setattr, replace

_T = TypeVar("_T")
_BREAKS = re.compile("\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")
_CONTROLS = re.compile(
    "[\x00-\x08\x0e-\x1b\x1f\x7f-\x84\x86-\x9f"  # C0 and C1: escape sequences begin with one
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # change the direction of what follows
    "\ud800-\udfff]"  # halves of characters, which no encoding can write
)
_SEVERAL_LINES = ("change",)
"""Fields whose text is code of several lines."""


def printable(text: str, *, line_break: str = "\n") -> str:
    r"""Replace characters that control a terminal or the direction of text, and line breaks.

    >>> printable("a\x1b[31mb\x07\r\nc\u202e"), printable("k\n[PROFILE]", line_break=" ")
    ('a?[31mb?\nc?', 'k [PROFILE]')
    """
    if text.isprintable():
        return text
    return _CONTROLS.sub("?", _BREAKS.sub(line_break, text))


def message(text: str) -> str:
    r"""Return a message whose further lines are indented, so that none can pass for another's.

    >>> message("a.json: no step\nNo problem found.")
    'a.json: no step\n    No problem found.'
    """
    return printable(text, line_break="\n    ")


def cleaned(value: _T) -> _T:
    """Return a struct, mapping or sequence with every text of it in printable characters.

    A text becomes one line, unless it is code of several lines. What is clean is returned itself.
    """
    new = _cleaned(value, " ")
    return value if new is value else new  # type: ignore[no-any-return]


def clean_fields(struct: Struct) -> None:
    """Clean a frozen struct that is being made, as its `__post_init__`."""
    for name in struct.__struct_fields__:
        value = getattr(struct, name)
        new = _cleaned(value, _break_in(name))
        if new is not value:
            force_setattr(struct, name, new)


def _break_in(field: str) -> str:
    return "\n" if field in _SEVERAL_LINES else " "


def _cleaned(value: Any, line_break: str) -> Any:
    if isinstance(value, str):
        return printable(value, line_break=line_break)
    if isinstance(value, Struct):
        changes = {}
        for name in value.__struct_fields__:
            old = getattr(value, name)
            if (new := _cleaned(old, _break_in(name))) is not old:
                changes[name] = new
        return replace(value, **changes) if changes else value
    if isinstance(value, tuple | list):
        items = [_cleaned(item, line_break) for item in value]
        changed = any(new is not old for new, old in zip(items, value, strict=True))
        return type(value)(items) if changed else value
    if isinstance(value, Mapping):
        pairs = {_cleaned(k, " "): _cleaned(item, line_break) for k, item in value.items()}
        pairs_before = zip(pairs.items(), value.items(), strict=False)
        same = len(pairs) == len(value) and all(
            key is old_key and item is old for (key, item), (old_key, old) in pairs_before
        )
        return value if same else pairs
    return value
