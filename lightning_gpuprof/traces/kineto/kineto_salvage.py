"""What to do with JSON that a strict parser refuses: find whole events, mend known faults."""

import re
from bisect import bisect_left, bisect_right
from dataclasses import dataclass

BORDER = re.compile(rb"\}\s*(,)\s*\{")
"""Between two objects of a list, or in a string that looks like it."""
_EVENTS = re.compile(rb'\}\s*(,)\s*\{\s*"ph"\s*:')
"""Between two events as Kineto writes them, and nowhere inside of one."""
_TOKEN = re.compile(rb'\\.|["{}\[\]]', re.DOTALL)
_NOT_A_NUMBER = re.compile(rb"([:\[,]\s*)[-+]?(?:nan|inf|NaN|Infinity)(?=\s*[,\]}])")
_ESCAPES = re.compile(rb'\\["\\/bfnrt]|\\u[0-9a-fA-F]{4}|\\')
_CONTROL = re.compile(rb"[\x00-\x1f]")


_Reading = tuple[list[int], dict[int, int]]
"""Where brackets are, and for each that opens something where that ends."""


@dataclass(frozen=True)
class Walked:
    """Where the events of a list lie.

    Args:
        spans: Start and end of each whole event.
        rest: Index from which text is left over.
        lost: Events that seemed never to end, a bracket or a quote of theirs missing.
        ended: The list's closing bracket was found; `rest` is just after it.
    """

    spans: list[tuple[int, int]]
    rest: int
    lost: int
    ended: bool


def walk(text: bytes, patience: int = 0) -> Walked:
    """Find the events in the inside of a JSON list, by the brackets outside strings.

    Args:
        text: Of the list, from where an event begins.
        patience: An event that does not end, with more bytes than these behind the last whole one,
            is given up for the next. Otherwise it may go on in what is not read yet.

    >>> walk(b'{"a": "}"}, {"b": [{}]}], "c": 1')
    Walked(spans=[(0, 10), (12, 23)], rest=24, lost=0, ended=True)
    >>> walk(b'{"a": 1}, {"b": ')
    Walked(spans=[(0, 8)], rest=8, lost=0, ended=False)
    >>> walk(b'{"a": [1}, {"b": 2}, {"c: 3}, {"d": 4}')
    Walked(spans=[(11, 19), (30, 38)], rest=38, lost=2, ended=False)
    """
    quotes, readings = _readings(text)
    between = [found.start(1) for found in _EVENTS.finditer(text)]
    borders = between or [found.start(1) for found in BORDER.finditer(text)]
    spans: list[tuple[int, int]] = []
    rest = lost = 0
    while True:
        places, ends = readings[bisect_left(quotes, rest) % 2]
        number = bisect_left(places, rest)
        while number < len(places):
            start = places[number]
            if text[start] == ord("]"):
                return Walked(spans, start + 1, lost, ended=True)
            if text[start] == ord("}"):
                number += 1  # the end of an event whose beginning is lost
                continue
            end = ends.get(start)
            if end is None or bisect_left(between, start) < bisect_left(between, end):
                break
            if text[start] == ord("{"):
                spans.append((start, end))
            rest, number = end, bisect_left(places, end, number)
        else:
            start = rest  # none begins, as strings go
        following = bisect_right(borders, start)
        if following == len(borders) or len(text) - rest <= patience:
            return Walked(spans, rest, lost, ended=False)
        lost += 1
        rest = borders[following]


def _readings(text: bytes) -> tuple[list[int], tuple[_Reading, _Reading]]:
    """Return where quotes are, and the brackets by how many quotes precede them, even or odd.

    Behind a lost quote all that was inside of strings seems to be outside, and the other way
    round. So a text has two readings, and each needs to be gone through once.
    """
    quotes: list[int] = []
    readings: tuple[_Reading, _Reading] = ([], {}), ([], {})
    opened: tuple[list[int], list[int]] = [], []
    for token in _TOKEN.finditer(text):
        place = token.start()
        side = len(quotes) % 2
        if text[place] == ord('"'):
            quotes.append(place)
        elif text[place] != ord("\\"):
            places, ends = readings[side]
            places.append(place)
            if text[place] in b"{[":
                opened[side].append(place)
            elif opened[side]:
                ends[opened[side].pop()] = place + 1
    return quotes, readings


def repaired(text: bytes) -> bytes:
    r"""Mend what profilers are known to write: nan and inf, stray backslashes, bad UTF-8.

    >>> repaired(b'{"warps per SM": inf, "path": "C:\\dir"}')
    b'{"warps per SM": null, "path": "C:\\\\dir"}'
    """
    text = _NOT_A_NUMBER.sub(rb"\1null", text)
    if b"\\" in text:
        text = _ESCAPES.sub(_mend_escape, text)
    if not text.isascii():
        text = text.decode("utf-8", "replace").encode()
    return text


def _mend_escape(found: "re.Match[bytes]") -> bytes:
    return found[0] if len(found[0]) > 1 else b"\\\\"


def without_controls(text: bytes) -> bytes:
    r"""Replace raw control characters, which JSON strings may not hold, with spaces.

    >>> without_controls(b'{"name": "a\nb"}')
    b'{"name": "a b"}'
    """
    return _CONTROL.sub(b" ", text)
