"""Determines which slot is innermost between the boundaries of a log.

Training steps repeat, so that the result for a pattern of boundaries is cached. A boundary is
stored as a single number: the number of a slot (or `~number` for a named part) times 4, plus what
happens to it.
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

OPEN, CLOSE, SWAP, CUT_OPEN = range(4)
"""What happens at a boundary: a slot or part opens, closes, replaces the innermost slot, or opens
when a new row begins."""
CUT = -4 + CUT_OPEN
"""The boundary at which a row ends while nothing opens or closes."""

_MOST_CACHED = 512
_LONGEST_CACHED = 2_048

Path = tuple[int, ...]
"""The open slots, the outermost first, which is never closed."""

Codes = npt.NDArray[np.int32]
Slots = npt.NDArray[np.int64]


def code(event: int, number: int) -> int:
    """Return the boundary of an event (`OPEN`, `CLOSE`, `SWAP`, `CUT_OPEN`) of a slot or part."""
    return number * 4 + event


def ends_row(codes: Codes) -> npt.NDArray[np.bool_]:
    """Return which boundaries end a row."""
    ends: npt.NDArray[np.bool_] = np.equal(codes & 3, CUT_OPEN)
    return ends


class Paths:
    """Follows the boundaries of a log, and caches the result of every row for equal rows.

    Args:
        slot_inside: Returns the slot that a named part charges inside another slot.
        slots_of: Returns all slots that a named part has charged so far.
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
        open_slots, innermost = list(path), []
        for boundary in codes:
            innermost.append(open_slots[-1])
            if boundary == CUT:
                continue
            number, event = boundary >> 2, boundary & 3
            if event in (OPEN, CUT_OPEN):
                slot = number if number >= 0 else self._slot_inside(~number, open_slots[-1])
                open_slots.append(slot)
            elif event == SWAP:
                open_slots[-1] = number
            else:
                self._close(open_slots, {number} if number >= 0 else self._slots_of(~number))
        return np.array(innermost, dtype=np.int64), tuple(open_slots)

    def _close(self, open_slots: list[int], slots: set[int]) -> None:
        """Close the innermost of these slots, and all inside it that an exception has left open."""
        for depth in range(len(open_slots) - 1, 0, -1):
            if open_slots[depth] in slots:
                del open_slots[depth:]
                return
