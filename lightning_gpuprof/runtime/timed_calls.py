"""Calls a method at the end of a batch, about once in an interval of time."""

from collections import deque
from collections.abc import Callable

from lightning_gpuprof.runtime.hooks import PeriodicCalls

MOST_BATCHES = 200
"""The clock is read at least once in so many batches: later steps may take longer than these."""
_PACES = 8
"""So many looks at the clock show how long a step takes."""


class TimedCalls:
    """Reads the clock at the end of a batch in many, and calls a method once its time has come.

    Args:
        calls: Counts the batches.
        method: The method.
        now: Returns nanoseconds.
        interval_ns: The time between two calls, or a function that returns it.
    """

    def __init__(
        self,
        calls: PeriodicCalls,
        method: Callable[[], object],
        now: Callable[[], int],
        interval_ns: int | Callable[[], int],
    ) -> None:
        self._calls, self._method, self._now = calls, method, now
        self._interval_ns = interval_ns
        self._looked_ns, self._looked_batches = now(), calls.batches
        self._due_ns = self._next_due_ns(self._looked_ns)
        self._paces: deque[float] = deque(maxlen=_PACES)
        self._every = 0
        self._look_every(1)

    @property
    def least_step_ns(self) -> float:
        """The shortest mean step between two of the last looks, with validations among them."""
        return min(self._paces, default=1.0)

    def stop(self) -> None:
        """End the calls."""
        self._calls.drop(self._look)

    def _next_due_ns(self, now_ns: int) -> int:
        interval_ns = self._interval_ns
        return now_ns + (interval_ns() if callable(interval_ns) else interval_ns)

    def _look_every(self, batches: int) -> None:
        if batches != self._every:
            self._every = batches
            self._calls.drop(self._look)
            self._calls.add(self._look, batches)

    def _look(self) -> None:
        now_ns, batches = self._now(), self._calls.batches
        pace_ns = (now_ns - self._looked_ns) / max(1, batches - self._looked_batches)
        self._looked_ns, self._looked_batches = now_ns, batches
        self._paces.append(max(1.0, pace_ns))
        if is_due := now_ns >= self._due_ns:
            self._due_ns = self._next_due_ns(now_ns)
        left_ns = self._due_ns - now_ns
        self._look_every(min(MOST_BATCHES, max(1, int(left_ns / self._paces[-1]))))
        if is_due:
            self._method()
