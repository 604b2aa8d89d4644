"""Compares two variants of a program by the blocks of steps that they trained in turns."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from lightning_gpuprof.records.trials import FASTER, SAME, SLOWER, UNDECIDED

MIN_FRAC = 0.01
"""A smaller gain or loss, as a share of the step, does not matter."""
MIN_PAIRS, MAX_PAIRS = 6, 40
PRECISE_FRAC = 0.03
"""An interval is narrow enough if half of its width is at most this share of the step."""
WIDENING = 1.4
"""A verdict uses an interval that is this much wider. A test that is repeated after every pair
gives a wrong result more often than the once in twenty that a 95 % interval promises."""
_STUDENT_T = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23)
"""Student's t for 95 %, by degrees of freedom from 1 on."""


class TrainedBlock(msgspec.Struct, frozen=True):
    """A block of steps that a child process has trained.

    The first block of a child also reports its first step and its first losses.
    """

    ns: int
    steps: int
    samples: int = 0
    """0 if the number of samples in a batch is unknown."""
    memory_bytes: int = 0
    first_step_ns: int = 0
    losses: tuple[float | None, ...] = ()
    """None is a loss that is not finite, which JSON cannot hold."""

    @property
    def step_ns(self) -> float:
        """The mean time of a step."""
        return self.ns / self.steps


class Gain(NamedTuple):
    """The time that a step saves as a share of the step, with its 95 % interval."""

    low: float
    middle: float
    high: float

    @property
    def verdict(self) -> str:
        """What the interval says for sure."""
        half = (self.high - self.low) / 2 * WIDENING
        if abs(self.middle) + half < MIN_FRAC:
            return SAME
        if self.middle - half > 0 and self.middle >= MIN_FRAC:
            return FASTER
        return SLOWER if self.middle + half < 0 else UNDECIDED


@dataclass
class Pairs:
    """The blocks of two variants. Both blocks of a pair were trained directly after each other."""

    before: list[TrainedBlock] = field(default_factory=list)
    after: list[TrainedBlock] = field(default_factory=list)

    @property
    def gain(self) -> Gain | None:
        """The gain for an equal number of samples; None as long as there is a single pair."""
        samples_before = _samples_per_step(self.before)
        samples_after = _samples_per_step(self.after)
        scale = samples_before / samples_after if samples_before and samples_after else 1.0
        before_ns = [block.step_ns for block in self.before]
        after_ns = [block.step_ns * scale for block in self.after]
        return gain_of(before_ns, after_ns)

    @property
    def decided(self) -> bool:
        """Whether the verdict is sure, and a gain precise, so that no more pairs are needed."""
        gain = self.gain
        if gain is None or len(self.after) < MIN_PAIRS or gain.verdict == UNDECIDED:
            return False
        return gain.verdict != FASTER or gain.high - gain.low <= 2 * PRECISE_FRAC


def gain_of(before_ns: Sequence[float], after_ns: Sequence[float]) -> Gain | None:
    """Return the gain by the ratio of the means; its interval follows from how the pairs differ."""
    count, total_before_ns = len(after_ns), sum(before_ns)
    if count < 2 or not total_before_ns:
        return None
    ratio = sum(after_ns) / total_before_ns
    squares = sum(
        (after - ratio * before) ** 2 for before, after in zip(before_ns, after_ns, strict=True)
    )
    error = math.sqrt(squares / (count * (count - 1))) / (total_before_ns / count)
    freedom = count - 1
    t = _STUDENT_T[freedom - 1] if freedom <= len(_STUDENT_T) else 1.96 + 2.8 / freedom
    return Gain(1 - ratio - t * error, 1 - ratio, 1 - ratio + t * error)


def _samples_per_step(blocks: Sequence[TrainedBlock]) -> float:
    """Return the mean number of samples in a step; 0.0 if any block does not know it."""
    if not all(block.samples for block in blocks):
        return 0.0
    return sum(block.samples for block in blocks) / sum(block.steps for block in blocks)
