"""When another thread is sampled, and when no sample may be taken."""

import gc
import random
import sys
from collections.abc import Callable
from typing import Protocol

DENSE, SPARSER = 100, 4
"""The first samples, enough to name a line, come one `interval_s` apart; the rest, which make its
share more exact, come so many times further apart, as each of them holds the other thread up."""
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

    A sample needs the interpreter's lock. Where the other thread holds it, Python hands it over
    after `sys.getswitchinterval()` (5 ms), wherever that thread is, or earlier at a call that lets
    go of it. In the second case the sample is late and shows that call, not the Python before it:
    of Python that runs for less than 5 ms between two such calls, samples show the calls.

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
        sample()
    return True


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
