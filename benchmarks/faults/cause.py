"""What a cause is: a fault with a knob, the same run with its fix, and what should be said."""

from collections.abc import Callable
from dataclasses import dataclass

from workload import Setup


@dataclass(frozen=True)
class Cause:
    """One way to slow a training run down.

    Args:
        name: Snake-case name; also its file's.
        finding: The finding id that should come first.
        also: Other ids that name the same cause rightly, each with its reason in the file.
        fix: What the fixed run does differently, in one sentence.
        faulty: Knob to the run with the fault.
        fixed: The same knob to the run with the fix.
        knob: What the knob is, with its unit.
        guess: A knob that costs very roughly a millisecond per step: where calibration begins.
        whole: The knob is a whole number.
        grows: The cost of a step grows with the steps before it, so that calibration takes
            runs of full length.
        advice_says: A regular expression that the advice or change must match where the id
            alone could still advise the wrong thing.
    """

    name: str
    finding: str
    fix: str
    faulty: Callable[[float], Setup]
    fixed: Callable[[float], Setup]
    knob: str
    guess: float
    whole: bool = False
    grows: bool = False
    also: tuple[str, ...] = ()
    advice_says: str | None = None

    def accepts(self, finding_id: str) -> bool:
        """Tell whether a finding of this id names the cause."""
        return finding_id == self.finding or finding_id in self.also
