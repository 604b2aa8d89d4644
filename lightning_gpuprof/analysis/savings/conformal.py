"""Intervals that hold as often as they claim, by split conformal prediction of a step's time.

A model expects a time of the step after a change, with a least and a most. How far models were off
before is known from pairs: what was expected, and the step that was measured once the change was
made. A pair's score says how far outside the measured step lies. The interval for a new estimate
goes as far as the score that nine in ten pairs stay below; if the new case is drawn like the pairs,
it holds in 90 % (Vovk, Gammerman and Shafer 2005; Romano, Patterson and Candes 2019). docs/adr/0053
has the choices and how they were made.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from math import ceil, exp, hypot, log

import msgspec
from msgspec import Struct

LEVEL = 0.9
"""How often an interval is to hold."""
OWN_PAIRS = 20
"""So many pairs of its own kind bound the intervals of a kind; one with fewer takes all pairs, if
there are so many of all kinds."""
BELOW, MOST_BELOW = 0.15, 0.3
"""By how much a score of 1 allows a step to be shorter than the model's least: by the logarithm of
what is saved at most and the first of these, but not by more than the second."""
FLOOR = 0.01
"""Two equal runs differ by this share of the step, however little is to be saved."""
MOST_BUSY = 0.9
"""A step that waited longer for a core is no longer a measure of anything."""
MOST_EXPONENT = 700.0
"""The exponential of more is beyond a float."""
PLANTED = "faults/"
"""What the sources of pairs begin with whose programs the rules' authors wrote themselves."""
TABLE = "calibration.json"


@dataclass(frozen=True)
class Coverage:
    """How often estimates held, each judged by the other pairs.

    Args:
        held: The pairs whose measured step lay in the interval that the others give.
        count: All pairs.
        pooled: Whether pairs of all kinds were taken, for want of pairs of the kind.
        busier: Whether the estimate is of a busier machine than any of the pairs.
    """

    held: int
    count: int
    pooled: bool
    busier: bool = False

    @property
    def frac(self) -> float:
        """The share of the estimates that held."""
        return self.held / self.count


@dataclass(frozen=True)
class StepAfter:
    """The interval of a step after a change, in ns; `coverage` is None if it is the model's own."""

    least_ns: float
    most_ns: float
    coverage: Coverage | None = None


@dataclass(frozen=True)
class Estimate:
    """What a model expects of the step after a change, in ns.

    Args:
        step_ns: The step as it is.
        least_ns: The least that the step takes, above 0.
        likely_ns: What it takes most likely.
        most_ns: The most that it takes.
        busy_frac: The share of the step in which the training thread waited for a core, if the
            machine was busy.
    """

    step_ns: float
    least_ns: float
    likely_ns: float
    most_ns: float
    busy_frac: float = 0.0

    def score(self, measured_ns: float) -> float:
        """Return how far a measured step lies outside of what was expected.

        Above the likely step it counts in units of what was to be saved: 1 if nothing was. Below
        the model's least it counts in units of `BELOW`, which are smaller if little was to be
        saved. What a busy machine may add or take is part of both.
        """
        return max(
            log(self.least_ns / measured_ns) / self._below,
            log(measured_ns / self.likely_ns) / self._above,
        )

    def within(self, score: float) -> tuple[float, float]:
        """Return the least and the most that a step takes whose score is at most this.

        >>> estimate = Estimate(120.0, 90.0, 100.0, 110.0)
        >>> least_ns, most_ns = estimate.within(0.5)
        >>> round(estimate.score(least_ns), 6), round(estimate.score(most_ns), 6)
        (0.5, 0.5)
        """
        return (
            self.least_ns * exp(-score * self._below),
            self.likely_ns * exp(min(score * self._above, MOST_EXPONENT)),
        )

    @property
    def of_model(self) -> StepAfter:
        """The model's own interval."""
        return StepAfter(least_ns=self.least_ns, most_ns=self.most_ns)

    @property
    def _below(self) -> float:
        most_saved = log(self.step_ns / self.least_ns)
        return hypot(min(BELOW + max(0.0, most_saved), MOST_BELOW), self._busy)

    @property
    def _above(self) -> float:
        return hypot(log(self.step_ns / self.likely_ns), FLOOR, self._busy)

    @property
    def _busy(self) -> float:
        return -log(1 - min(self.busy_frac, MOST_BUSY))


class Pair(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A step that was expected after a change, and the one that was measured; in ns.

    Args:
        kind: The kind of change: the id of the finding that proposes it.
        source: The program whose change it is.
        date: The day of the measurement.
        device: The type of the device that it trained on.
        step_ns: The step as it was recorded.
        least_ns: The least that the model expected of it with the change.
        likely_ns: What it expected most likely.
        most_ns: The most that it expected.
        busy_frac: The share of the step in which the training thread waited for a core.
        measured_ns: The step with the change, at the speed of the machine at the recording.
    """

    kind: str
    source: str
    date: str
    device: str
    step_ns: int
    least_ns: int
    likely_ns: int
    most_ns: int
    busy_frac: float
    measured_ns: int

    @property
    def score(self) -> float:
        """How far the measured step lies outside of what was expected."""
        expected = self.step_ns, self.least_ns, self.likely_ns, self.most_ns, self.busy_frac
        return Estimate(*expected).score(self.measured_ns)

    @property
    def planted(self) -> bool:
        """Whether the rules' authors wrote the program: how far off it is says little of others."""
        return self.source.startswith(PLANTED)


def made_pair(
    kind: str, source: str, date: str, device: str, estimate: Estimate, saved_ns: float
) -> Pair:
    """Return the pair of an estimate and what its change saved of the step as it was recorded."""
    return Pair(
        kind=kind,
        source=source,
        date=date,
        device=device,
        step_ns=round(estimate.step_ns),
        least_ns=round(estimate.least_ns),
        likely_ns=round(estimate.likely_ns),
        most_ns=round(estimate.most_ns),
        busy_frac=round(estimate.busy_frac, 3),
        measured_ns=round(max(estimate.step_ns - saved_ns, estimate.step_ns / 100)),
    )


class Calibration(Struct, frozen=True, forbid_unknown_fields=True):
    """The pairs by which intervals are calibrated."""

    pairs: tuple[Pair, ...] = ()

    def step_after(self, kind: str, device: str, estimate: Estimate) -> StepAfter:
        """Return the step after a change, and how often such intervals held.

        Bounds come from programs that the rules' authors did not write, on the same type of device:
        from those with this kind of change if they are `OWN_PAIRS`, else from all. A kind that was
        never measured, not even by a planted fault, keeps the interval of its model, and so does
        every kind where all pairs are fewer.
        """
        of_device = [pair for pair in self.pairs if pair.device == device]
        others = [pair for pair in of_device if not pair.planted]
        own = [pair for pair in others if pair.kind == kind]
        if len(others) < OWN_PAIRS or all(pair.kind != kind for pair in of_device):
            return estimate.of_model
        pooled = len(own) < OWN_PAIRS
        chosen = others if pooled else own
        scores = sorted(pair.score for pair in chosen)
        least_ns, most_ns = estimate.within(max(0.0, bound(scores)))
        busier = estimate.busy_frac > max(pair.busy_frac for pair in chosen)
        return StepAfter(least_ns, most_ns, Coverage(held(scores), len(scores), pooled, busier))


def bound(scores: Sequence[float]) -> float:
    """Return the score that a new case stays below in 90 %, from ordered scores.

    >>> bound(range(1, 100))
    90
    """
    # Rounded, as a product such as 0.9 * 70 may lie above the whole number in binary.
    rank = ceil(round((len(scores) + 1) * LEVEL, 9))
    return scores[min(rank, len(scores)) - 1]


def held(scores: Sequence[float]) -> int:
    """Return how many ordered scores stay below the bound that the other scores give.

    >>> held(range(1, 100)), held([0.0] * 20)
    (90, 20)
    """
    return sum(
        score <= bound([*scores[:index], *scores[index + 1 :]])
        for index, score in enumerate(scores)
    )


@cache
def calibration() -> Calibration:
    """Return the pairs that were measured for this version."""
    table = resources.files(__package__).joinpath(TABLE)
    return msgspec.json.decode(table.read_bytes(), type=Calibration)
