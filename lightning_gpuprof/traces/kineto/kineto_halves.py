"""Splits a trace's text in two, by stretches in turn, each half a trace of its own."""

import re
from collections.abc import Iterator

STRETCH_BLOCKS = 4
"""Long enough for the search for a border to cost nothing, short enough for even halves."""
_BORDER = re.compile(rb'\}\s*(,)\s*\{\s*"ph"\s*:')
"""Between two events as Kineto writes them; no text inside an event looks so, since there the
quotes would be escaped. Where other writers put other keys first, the first half is the whole."""
_EVENTS_KEY = b'"traceEvents"'


def every_other(blocks: Iterator[bytes], half: int) -> Iterator[tuple[int, Iterator[bytes]]]:
    """Yield half 0 or 1 of a trace that arrives in blocks, the same blocks for both.

    It comes as stretches by their number in the file. Each is a trace of its own and must be gone
    through before the next is asked for. The first holds what stands before the events, the last
    what stands after them.
    """
    deal = _Deal(blocks)
    while not deal.ended:
        stretch = deal.stretch()
        if deal.number % 2 == half:
            yield deal.number, stretch
        for _ in stretch:
            pass
        deal.number += 1


class _Deal:
    def __init__(self, blocks: Iterator[bytes]) -> None:
        self.ended = False
        self.number = 0
        self._blocks = blocks
        self._left = b""
        self._can_be_cut = False

    def stretch(self) -> Iterator[bytes]:
        """Yield the text up to the next border after enough blocks."""
        if self.number:
            yield b'{"traceEvents": [' + self._left
        for count, block in enumerate(self._blocks):
            if self.number == 0 and count == 0:
                self._can_be_cut = _EVENTS_KEY in block
            enough = self._can_be_cut and count >= STRETCH_BLOCKS
            border = _BORDER.search(block) if enough else None
            if border:
                self._left = block[border.end(1) :]
                yield block[: border.start(1)] + b"]}"
                return
            yield block
        self.ended = True
