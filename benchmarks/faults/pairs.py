"""The saving of a fix by pairs of runs that took turns, and its error. No I/O."""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

STUDENT = {1: 12.7, 2: 4.30, 3: 3.18, 4: 2.78, 5: 2.57, 7: 2.36, 10: 2.23, 15: 2.13, 30: 2.04}
"""Student's t, two-sided 95 %, by degrees of freedom; of those between, the next one below."""


@dataclass(frozen=True)
class Pair:
    """Two runs that took turns: the step time of each period of one and of the other.

    Args:
        slow_ns: Of the run with the fault.
        fast_ns: Of the run with the fix, as many.
        median_ns: The median step of the run with the fault.
    """

    slow_ns: Sequence[float]
    fast_ns: Sequence[float]
    median_ns: float

    def savings_ns(self) -> list[float]:
        """Return what the fix saved per step in each period."""
        return [slow - fast for slow, fast in zip(self.slow_ns, self.fast_ns, strict=True)]


def saving_ns(pairs: Iterable[Pair]) -> float:
    """Return what the fix saves per step: the median of all periods leaves out bursts."""
    return statistics.median(saving for pair in pairs for saving in pair.savings_ns())


def error_ns(pairs: Sequence[Pair]) -> float | None:
    """Return how far a saving may be from the truth (95 %); None of one period.

    Two processes differ by where their memory comes to lie, whatever their periods say: of three
    pairs and more the pairs are what is compared, of fewer their periods, which say too little.
    """
    if len(pairs) >= 3:
        values = [saving_ns([pair]) for pair in pairs]
    else:
        values = [saving for pair in pairs for saving in pair.savings_ns()]
    if len(values) < 2:
        return None
    freedom = len(values) - 1
    student = STUDENT[max(known for known in STUDENT if known <= freedom)]
    return student * statistics.stdev(values) / len(values) ** 0.5
