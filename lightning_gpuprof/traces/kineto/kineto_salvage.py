"""What to do with JSON that a strict parser refuses: find whole events, mend known faults."""

import re
from dataclasses import dataclass

_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\]]', re.DOTALL)
_NOT_A_NUMBER = re.compile(rb"([:\[,]\s*)[-+]?(?:nan|inf|NaN|Infinity)(?=\s*[,\]}])")
_ESCAPES = re.compile(rb'\\["\\/bfnrt]|\\u[0-9a-fA-F]{4}|\\')
_CONTROL = re.compile(rb"[\x00-\x1f]")


@dataclass(frozen=True)
class Walked:
    """Where the events of a list lie.

    Args:
        spans: Start and end of each whole event.
        rest: Index from which text is left over.
        ended: The list's closing bracket was found; `rest` is just after it.
    """

    spans: list[tuple[int, int]]
    rest: int
    ended: bool


def walk(text: bytes) -> Walked:
    """Find the events in the inside of a JSON list, by counting brackets outside strings.

    >>> walk(b'{"a": "}"}, {"b": [{}]}], "c": 1')
    Walked(spans=[(0, 10), (12, 23)], rest=24, ended=True)
    >>> walk(b'{"a": 1}, {"b": ')
    Walked(spans=[(0, 8)], rest=8, ended=False)
    """
    spans: list[tuple[int, int]] = []
    depth = start = rest = 0
    for token in _TOKEN.finditer(text):
        mark = text[token.start()]
        if mark in b"{[":
            if depth == 0:
                start = token.start()
            depth += 1
        elif mark in b"}]":
            if depth == 0:
                if mark == ord("]"):
                    return Walked(spans, token.end(), ended=True)
                continue  # the end of an event whose beginning is lost
            depth -= 1
            if depth == 0:
                rest = token.end()
                if text[start] == ord("{"):
                    spans.append((start, rest))
    return Walked(spans, rest, ended=False)


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
