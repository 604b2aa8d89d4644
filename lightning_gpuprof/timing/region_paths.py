"""Determines which slot is innermost after each boundary of a log, once per pattern of a step.

A boundary is stored as a single number: that of a slot (or of a named part, as `~number`) times 4,
plus the event that happens to it.
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

OPEN, CLOSE, SWAP, CUT_OPEN = range(4)
"""A slot or part opens; closes; replaces the innermost slot; or opens as a new row begins."""
CUT = -4 + CUT_OPEN
"""The boundary at which a row ends; nothing opens or closes."""

_MOST_CACHED = 512
_LONGEST_CACHED = 2_048

Path = tuple[int, ...]
"""The slots that are open, outermost first; the first is never closed."""

Codes = npt.NDArray[np.int32]
Slots = npt.NDArray[np.int64]


def code(event: int, number: int) -> int:
    """Return the boundary of an event (`OPEN`, `CLOSE`, `SWAP`, `CUT_OPEN`) of a slot or part."""
    return number * 4 + event


def ends_row(codes: Codes) -> npt.NDArray[np.bool_]:
    """Tell which boundaries end a row."""
    ends: npt.NDArray[np.bool_] = np.equal(codes & 3, CUT_OPEN)
    return ends


class Paths:
    """Follows boundaries through the regions that they open and close.

    Training steps repeat: the result of a row of boundaries is cached for the next row like it.
    """

    def __init__(
        self, slot_inside: Callable[[int, int], int], slots_of: Callable[[int], set[int]]
    ) -> None:
        self._slot_inside = slot_inside
        self._slots_of = slots_of
        self._cache: dict[tuple[Path, bytes], tuple[Slots, Path]] = {}

    def follow(self, path: Path, codes: Codes, ends: npt.NDArray[np.int64]) -> tuple[Slots, Path]:
        """Return the innermost slot before each boundary, and the slots open after the last."""
        text, size = codes.tobytes(), codes.itemsize
        begin, innermost = 0, []
        for end in [*(ends + 1).tolist(), len(codes)]:
            if end > begin:
                slots, path = self._follow_row(path, text[begin * size : end * size])
                innermost.append(slots)
            begin = end
        return np.concatenate(innermost), path

    def _follow_row(self, path: Path, row: bytes) -> tuple[Slots, Path]:
        followed = self._cache.get((path, row))
        if followed is None:
            followed = self._walk(path, np.frombuffer(row, dtype=np.int32).tolist())
            if len(self._cache) >= _MOST_CACHED:
                self._cache.clear()
            if len(row) <= _LONGEST_CACHED * 4:
                self._cache[path, row] = followed
        return followed

    def _walk(self, path: Path, codes: list[int]) -> tuple[Slots, Path]:
        open_now, innermost = list(path), []
        for boundary in codes:
            innermost.append(open_now[-1])
            if boundary == CUT:
                continue
            number, event = boundary >> 2, boundary & 3
            if event in (OPEN, CUT_OPEN):
                slot = number if number >= 0 else self._slot_inside(~number, open_now[-1])
                open_now.append(slot)
            elif event == SWAP:
                open_now[-1] = number
            else:
                self._close(open_now, {number} if number >= 0 else self._slots_of(~number))
        return np.array(innermost, dtype=np.int64), tuple(open_now)

    def _close(self, open_now: list[int], slots: set[int]) -> None:
        """Close the innermost of these slots and all inside it: exceptions leave regions open."""
        for place in range(len(open_now) - 1, 0, -1):
            if open_now[place] in slots:
                del open_now[place:]
                return
