"""The blocks of steps that two forms of a program trained in turns, and what is sure of them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from lightning_gpuprof.records.trials import FASTER, SAME, SLOWER, UNDECIDED

MIN_FRAC = 0.01
MIN_PAIRS, MAX_PAIRS = 6, 40
PRECISE_FRAC = 0.03
"""Half of an interval that is narrow enough, as a share of the step."""
SURE = 1.4
"""To decide, the interval is taken this much wider: who looks after each pair is fooled more often
than once in twenty times."""
_T = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23)
"""Student's t for 95 %, by degrees of freedom from 1 on."""


class Block(msgspec.Struct, frozen=True):
    """Some steps that a child has trained; its first block has what is known of its first steps."""

    ns: int
    steps: int
    samples: int = 0
    """0 where a batch does not say how many it holds."""
    memory_bytes: int = 0
    first_step_ns: int = 0
    losses: tuple[float, ...] = ()

    @property
    def step_ns(self) -> float:
        """The mean step."""
        return self.ns / self.steps


class Gain(NamedTuple):
    """What a step takes less, as a share of it, with its 95 % interval."""

    low: float
    middle: float
    high: float

    @property
    def verdict(self) -> str:
        """What is sure of it."""
        half = (self.high - self.low) / 2 * SURE
        if abs(self.middle) + half < MIN_FRAC:
            return SAME
        if self.middle - half > 0 and self.middle >= MIN_FRAC:
            return FASTER
        return SLOWER if self.middle + half < 0 else UNDECIDED


@dataclass
class Pairs:
    """The blocks of two forms; those of a pair were trained one right after the other."""

    before: list[Block] = field(default_factory=list)
    after: list[Block] = field(default_factory=list)

    @property
    def gain(self) -> Gain | None:
        """The gain on as many samples; None of a single pair."""
        old, new = _samples(self.before), _samples(self.after)
        same = old / new if old and new else 1.0
        before, after = ([one.step_ns for one in side] for side in (self.before, self.after))
        return gain_of(before, [step_ns * same for step_ns in after])

    @property
    def decided(self) -> bool:
        """Whether more pairs would tell no more that matters."""
        gain = self.gain
        if gain is None or len(self.after) < MIN_PAIRS or gain.verdict == UNDECIDED:
            return False
        return gain.verdict != FASTER or gain.high - gain.low <= 2 * PRECISE_FRAC


def gain_of(before_ns: Sequence[float], after_ns: Sequence[float]) -> Gain | None:
    """Return the gain by the ratio of the means, with an interval from the spread of the pairs."""
    count, whole = len(after_ns), sum(before_ns)
    if count < 2 or not whole:
        return None
    ratio = sum(after_ns) / whole
    apart = sum((new - ratio * old) ** 2 for old, new in zip(before_ns, after_ns, strict=True))
    error = math.sqrt(apart / (count * (count - 1))) / (whole / count)
    times = _T[count - 2] if count - 2 < len(_T) else 1.96 + 2.8 / (count - 1)
    return Gain(1 - ratio - times * error, 1 - ratio, 1 - ratio + times * error)


def _samples(blocks: Sequence[Block]) -> float:
    known = all(one.samples for one in blocks)
    return sum(one.samples for one in blocks) / sum(one.steps for one in blocks) if known else 0.0
