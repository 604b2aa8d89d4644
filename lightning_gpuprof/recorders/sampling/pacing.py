"""When another thread is sampled, and the settings of the process that this needs for a moment."""

import gc
import os
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Protocol

DENSE, SPARSER = 100, 4
"""The first samples, enough to name a line, come one `interval_s` apart; the rest, which make its
share more exact, come so many times further apart, as each of them holds the other thread up."""
SETTLE_S = 0.01
"""Longest random wait before a sample. The thread wakes where the other thread lets go of the
interpreter's lock; after some quick turns it samples every place alike."""

_COLLECTS_IN_A_WALK = sys.version_info[:2] == (3, 11)


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


@contextmanager
def no_collection() -> Iterator[None]:
    """Put garbage collection off while another thread's frames are walked, on Python 3.11.

    There, walking makes objects of frames, and that may start a collection in the middle. What it
    finalizes can let go of the interpreter's lock (torch's tensors do), the other thread returns
    from the frame, and the walk goes on in freed memory. Later versions collect between
    instructions alone; earlier ones have the objects already.
    """
    if not _COLLECTS_IN_A_WALK:
        yield
        return
    usual = gc.get_threshold()
    held = (0, *usual[1:])

    def put_back() -> None:
        if gc.get_threshold() == held:  # else the program has set another meanwhile
            gc.set_threshold(*usual)

    # Not by `gc.disable()`: the program may call that itself meanwhile, and would be undone.
    with _putting_back(put_back):
        gc.set_threshold(*held)
        yield


QUICK_S = 50e-6
_OPEN: list[Callable[[], object]] = []
"""Functions that put back the process's settings, while a sample is taken."""


@contextmanager
def quick_turns() -> Iterator[None]:
    """Let a thread that asks for the interpreter's lock have it within `QUICK_S`.

    Python grants it after 5 ms, or when a call lets go of it: a sample would then find the other
    thread at such a call, hardly ever in the Python before it. The setting is the process's, so
    it is put back at once.
    """
    usual = sys.getswitchinterval()
    with _putting_back(partial(sys.setswitchinterval, usual)):
        sys.setswitchinterval(min(usual, QUICK_S))
        yield


@contextmanager
def _putting_back(put_back: Callable[[], object]) -> Iterator[None]:
    """Put something back at the end, and in a process forked before, where this thread is not."""
    _OPEN.append(put_back)
    try:
        yield
    finally:
        put_back()
        _OPEN.remove(put_back)


def _after_fork() -> None:
    while _OPEN:
        _OPEN.pop()()


if hasattr(os, "register_at_fork"):  # where there are forks
    os.register_at_fork(after_in_child=_after_fork)
