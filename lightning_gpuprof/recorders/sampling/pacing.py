"""When another thread is sampled, and when no sample may be taken."""

import gc
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

DENSE, SPARSER = 100, 4
"""The first samples, enough to name a line, come one `interval_s` apart; the rest, which make its
share more exact, come so many times further apart, as each of them holds the other thread up."""
SETTLE_S = 0.01
"""Longest random wait before a sample. The thread wakes where the other thread lets go of the
interpreter's lock; after some quick turns it samples every place alike."""
QUICK_S = 50e-6
_COLLECTS_IN_A_WALK = sys.version_info[:2] == (3, 11)
_WALK_OBJECTS = 300
"""More than a walk over all threads' frames makes."""


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
            if stop.wait(SETTLE_S * chance.random()):
                return False
            sample()
    return True


@contextmanager
def quick_turns() -> Iterator[None]:
    """Let a thread that asks for the interpreter's lock have it within `QUICK_S`.

    Python grants the lock after 5 ms, or when the other thread lets go of it. At 5 ms nearly every
    sample shows a call that lets go, hardly ever the Python before it: in example_projects/char_lm
    the regular expression that takes half of the step got 17 % of the samples, and the tensor
    operation after it 34 %. The setting is the process's, so it is put back after each sample.
    """
    usual = sys.getswitchinterval()
    sys.setswitchinterval(min(usual, QUICK_S))
    try:
        yield
    finally:
        sys.setswitchinterval(usual)


def may_walk() -> bool:
    """Tell whether another thread's frames can be walked now; on Python 3.11, not always.

    There, walking makes objects of frames, and that may start a collection in the middle. What it
    finalizes can let go of the interpreter's lock (torch's tensors do), the other thread returns
    from the frame, and the walk goes on in freed memory. So a young collection that is near is made
    before the walk. Later versions collect between instructions alone; earlier ones have the
    objects already.
    """
    if not _COLLECTS_IN_A_WALK or not gc.isenabled():
        return True
    if _collection_is_near():
        gc.collect(0)
    return not _collection_is_near()


def _collection_is_near() -> bool:
    return 0 < gc.get_threshold()[0] <= gc.get_count()[0] + _WALK_OBJECTS
