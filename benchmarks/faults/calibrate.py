"""Finds the knob that makes a fault take a given share of the step on this machine, now.

The cost of a fault is what its run takes more than its fixed run at the same knob. A few short
pairs of runs are enough: the cost grows nearly in proportion to the knob.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from cause import Cause
from workload import Setup

TRIES = 5
TOLERANCE, LEAST_TOLERANCE = 0.2, 0.015
"""A share within a fifth of the one asked for is near enough, and within 1.5 % of the step: what
two short equal runs differ by."""
FASTEST_CHANGE = 12.0

StepTimes = Callable[[Setup, Setup], tuple[float, float]]
"""Runs the faulty and the fixed setup and returns the step time of each."""


@dataclass(frozen=True)
class Calibrated:
    """A knob and the share of the step that it was seen to cost in the short runs."""

    knob: float
    frac: float


def calibrate(cause: Cause, wanted_frac: float, steps_ns: StepTimes, guess: float) -> Calibrated:
    """Return the best knob of a few tries; `steps_ns` runs the two setups."""
    tries: list[Calibrated] = []
    knob = _rounded(cause, guess)
    for _ in range(TRIES):
        faulty, fixed = steps_ns(
            _length(cause, cause.faulty(knob)), _length(cause, cause.fixed(knob))
        )
        tries.append(Calibrated(knob, 1 - fixed / faulty))
        if abs(tries[-1].frac - wanted_frac) <= max(TOLERANCE * wanted_frac, LEAST_TOLERANCE):
            break
        wanted_ns = fixed * wanted_frac / (1 - wanted_frac)
        change = wanted_ns / max(faulty - fixed, wanted_ns / FASTEST_CHANGE)
        following = _rounded(cause, knob * max(change, 1 / FASTEST_CHANGE))
        if any(following == tried.knob for tried in tries):
            break
        knob = following
    return min(tries, key=lambda tried: abs(tried.frac - wanted_frac))


def _rounded(cause: Cause, knob: float) -> float:
    return float(max(1, round(knob))) if cause.whole else knob


def _length(cause: Cause, setup: Setup) -> Setup:
    """Shorten a run to one period of 60 steps, which nothing in the suite exceeds."""
    return setup if cause.full_length else replace(setup, warm_steps=20, timed_steps=60)
