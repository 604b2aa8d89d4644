"""Whether steps compute with more and more: sequences, pictures or batches that grow on purpose."""

from dataclasses import dataclass

import numpy as np

from lightning_gpuprof.analysis.memory.memory_growth import rises
from lightning_gpuprof.records.reader import Session
from lightning_gpuprof.records.schema import INPUT_NOTE, Note

MIN_LOOKS = 4
"""So many in rising order are chance in one of 24 runs whose batches differ at random."""
TREND_LOOKS = 8
"""From so many on a trend may be one with exceptions, if chance makes it once in a thousand."""
ENDS = 3
"""Looks at either end, whose median is what a step computed with there, where there are many."""
EVEN_FRAC = 0.05
"""So far off an even line, as a share of the whole rise, looks may lie where as much is added
in each step, as to what is kept."""
POWER = 2
"""What a pass takes goes up with the square of its input at most: each with each, as in attention.
"""


@dataclass(frozen=True)
class LargerInput:
    """How many numbers the first operator of forward passes made, at first and at last."""

    first: int
    last: int
    evenly: bool = False
    """It rises from step to step by as much each time."""

    def explains(self, first_ns: float, last_ns: float) -> bool:
        """Tell whether something that took so long at first and at last grew no more than that.

        >>> LargerInput(100, 200).explains(10, 40), LargerInput(100, 200).explains(10, 50)
        (True, False)
        """
        return bool(last_ns * self.first**POWER <= first_ns * self.last**POWER)

    @property
    def told(self) -> str:
        """Say it."""
        return f"steps compute with more and more, which explains it: {self.seen}"

    @property
    def seen(self) -> str:
        """Say what was seen."""
        return (
            f"the first operator of the forward pass made {self.first:,} numbers at first, and "
            f"{self.last:,} at last"
        )


def larger_input(session: Session) -> LargerInput | None:
    """Return how a session's input grows; None where it does not, or nobody looked."""
    noted = [note for note in session.all(Note) if note.name == INPUT_NOTE]
    looks = {note.step: note.value for note in noted if isinstance(note.value, int)}
    seen = np.array([*looks.values()], dtype=np.float64)
    if len(seen) < MIN_LOOKS:
        return None
    many = len(seen) >= TREND_LOOKS
    ends = ENDS if many else 1
    first, last = int(np.median(seen[:ends])), int(np.median(seen[-ends:]))
    grows = bool((np.diff(seen) >= 0).all()) or (many and rises(seen))
    if not (grows and 0 < first < last):
        return None
    at = np.array([*looks], dtype=np.float64)
    line = np.interp(at, at[[0, -1]], seen[[0, -1]])
    evenly = bool((np.abs(seen - line) <= EVEN_FRAC * (seen[-1] - seen[0])).all())
    return LargerInput(first, last, evenly)
