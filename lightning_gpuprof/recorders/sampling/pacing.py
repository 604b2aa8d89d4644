"""How often another thread is looked at."""

import random
from collections.abc import Callable
from typing import Protocol

from lightning_gpuprof.recorders.sampling.stack_lines import quick_turns

DENSE, SPARSER = 100, 4
"""So many samples come one `interval_s` apart, which is enough to name a line; the rest, which make
its share more exact, come so many times as far apart, for each one holds the other thread up."""
SETTLE_S = 0.01
"""Between waking and looking, at random up to this. The thread wakes where the other one lets go of
the interpreter's lock; after a while of turns that are quick it looks at any place alike."""


class Stop(Protocol):
    """A `threading.Event`, or what stands in for it in a test."""

    def wait(self, timeout: float) -> object:
        """Wait for so many seconds at most, and tell whether to stop."""
        ...


def keep_sampling(
    sample: Callable[[], object],
    count: Callable[[], int],
    stop: Stop,
    *,
    interval_s: float,
    most: int,
) -> bool:
    """Sample at irregular distances until there are `most` samples, or it is told to stop.

    The distances come from a generator of their own: the program's random numbers stay as they are.

    Args:
        sample: Takes a sample, or none where there is nothing to see.
        count: Returns how many there are.
        stop: Ends it.
        interval_s: Mean distance of the first samples.
        most: Samples after which it ends.

    Returns:
        Whether it has them all.
    """
    chance = random.Random(0)
    while (taken := count()) < most:
        mean_s = interval_s if taken < DENSE else SPARSER * interval_s
        if stop.wait(mean_s * (0.5 + chance.random())):
            return False
        with quick_turns():
            if stop.wait(chance.random() * SETTLE_S):
                return False
            sample()
    return True
