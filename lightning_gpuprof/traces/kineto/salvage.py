"""Finds whole events in JSON that a strict parser refuses, and repairs known faults."""

import json
import re
from bisect import bisect_right
from dataclasses import dataclass

BORDER = re.compile(rb"\}\s*(,)\s*\{")
"""Between two objects of a list, or in a string that looks like it."""
_EVENTS = re.compile(rb'\}\s*(,)\s*\{\s*"ph"\s*:')
"""Between two events as Kineto writes them, and nowhere inside of one."""
_BETWEEN = re.compile(rb"[\s,}]*")
_DECODER = json.JSONDecoder(strict=False)
_SHORT = 1 << 14
_NOT_A_NUMBER = re.compile(rb"([:\[,]\s*)[-+]?(?:nan|inf|NaN|Infinity)(?=\s*[,\]}])")
_ESCAPES = re.compile(rb'\\["\\/bfnrt]|\\u[0-9a-fA-F]{4}|\\')


@dataclass(frozen=True)
class Walked:
    """Start and end of each whole event of a list; `lost` counts events that are not JSON."""

    spans: list[tuple[int, int]]
    rest: int
    """Where the remaining text begins, after the closing bracket if the list has `ended`."""
    lost: int
    ended: bool


def walk(text: bytes, patience: int = 0) -> Walked:
    """Find the events inside the text of a JSON list, from where one begins.

    An event without an end is skipped if more than `patience` bytes follow the last whole event;
    with fewer, its end may not have been read yet.

    >>> walk(b'{"a": [1}, {"b": 2}, {"c: 3}, {"d": 4}')
    Walked(spans=[(11, 19), (30, 38)], rest=38, lost=2, ended=False)
    """
    borders = [match.start(1) for match in _EVENTS.finditer(text)]
    borders = borders or [match.start(1) for match in BORDER.finditer(text)]
    characters = text.decode("latin-1")  # one per byte
    spans: list[tuple[int, int]] = []
    rest = lost = 0
    while True:
        between = _BETWEEN.match(text, rest)
        start = between.end() if between else rest
        if text[start : start + 1] == b"]":
            return Walked(spans, start + 1, lost, ended=True)
        try:
            value, rest = _decode(characters, start)
        except (ValueError, RecursionError):
            following = bisect_right(borders, start)
            if following == len(borders) or len(text) - rest <= patience:
                return Walked(spans, rest, lost, ended=False)
            lost += 1
            rest = borders[following]
        else:
            if isinstance(value, dict):
                spans.append((start, rest))


def _decode(text: str, start: int) -> tuple[object, int]:
    """Decode the value that begins at `start`; return it with its end."""
    # An error counts the lines before it, which takes long in a long text: try a short one first.
    begin = text[start : start + _SHORT]
    try:
        value, end = _DECODER.raw_decode(begin)
        return value, start + end
    except json.JSONDecodeError as error:
        if len(begin) == _SHORT and (error.pos > _SHORT - 16 or error.msg.startswith("Unterm")):
            return _DECODER.raw_decode(text, start)
        raise


def repaired(text: bytes) -> bytes:
    r"""Repair what profilers are known to write: nan and inf, stray backslashes, bad UTF-8.

    >>> repaired(b'{"warps per SM": inf, "path": "C:\\dir"}')
    b'{"warps per SM": null, "path": "C:\\\\dir"}'
    """
    text = _NOT_A_NUMBER.sub(rb"\1null", text)
    if b"\\" in text:
        text = _ESCAPES.sub(lambda match: match[0] if len(match[0]) > 1 else b"\\\\", text)
    return text if text.isascii() else text.decode("utf-8", "replace").encode()
