"""Finds text that holds nothing but Python calls, to leave it out without decoding it.

With stacks, most events of a trace are Python calls, and Kineto writes them all in one row. Quotes
inside a string are escaped, so no name and no value can look like the keys that are counted here.
"""

import re

import numpy as np

_CALLS = (b'"cat": "python_function"', b'"cat":"python_function"')
_TYPE = b'"ph"'
_BORDER = re.compile(rb',\s*\{\s*"ph"\s*:')
"""What follows an event as Kineto writes it, and follows nothing inside one."""
_NEAR = 1 << 10
"""Most text holds no Python calls: a look at the first event tells."""


def only_python_calls(text: bytearray, begin: int, end: int) -> bool:
    """Tell whether a part of a list of events holds whole Python calls and nothing else.

    Args:
        text: Part of a trace.
        begin: Where an event begins, or the comma before it.
        end: A comma that may stand between two events.

    >>> call, kernel = b'{"ph": "X", "cat": "python_function"}', b'{"ph": "X", "cat": "kernel"}'
    >>> text = bytearray(b",".join((call, call, kernel, call)))
    >>> commas = [place for place in range(len(text)) if text[place : place + 2] == b",{"]
    >>> [only_python_calls(text, 0, comma) for comma in commas]
    [True, True, False]
    """
    near = min(begin + _NEAR, end)
    mark = next((one for one in _CALLS if text.find(one, begin, near) >= 0), None)
    if mark is None or not _BORDER.match(text, end):
        return False
    # Each event has one type: where another kind of event is among them, there are more of these.
    return text.count(mark, begin, end) == _count(text, _TYPE, begin, end)


def _count(text: bytearray, word: bytes, begin: int, end: int) -> int:
    """Count a word of four bytes, three times as fast as `text.count` does."""
    number = np.frombuffer(word, np.uint32)[0]
    places = (np.frombuffer(text, np.uint32, (end - at) // 4, at) for at in range(begin, begin + 4))
    return sum(int(np.count_nonzero(four == number)) for four in places)
