"""Lets two training runs take turns, some steps each, so that both meet the same machine.

A machine's speed drifts by more within seconds than small faults cost. Whole runs in turn are
seconds apart; turns of a fraction of a second are not. A run that waits computes nothing.
"""

import os
import time
from multiprocessing.synchronize import Semaphore

TIMEOUT_S = 120.0


class Turns:
    """One run's side of the taking of turns.

    Args:
        mine: Released when it is this run's turn.
        others: Released to pass the turn on.
        steps: In each turn, the same for both runs.
        core: The training thread stays on it once warm, or goes where it likes if None. Two runs
            left to themselves keep to a core each, of which one may be the busier one all along.
    """

    def __init__(
        self, mine: Semaphore, others: Semaphore, steps: int, core: int | None = None
    ) -> None:
        self.mine, self.others, self._steps, self._core = mine, others, steps, core
        self._warm = 1
        self._waited_ns = 0

    def begin(self, warm: int) -> None:
        """Take turns before the first step, after the warm ones and then every `steps`."""
        self._warm = warm

    def waited_ns(self, step: int) -> int:
        """Wait if the turn is over before this step; return all that was waited so far."""
        if step == self._warm and self._core is not None:
            # This thread alone: a logger's own has begun by now, and goes where it likes.
            os.sched_setaffinity(0, {self._core})
        if step == 0:
            self._wait()
        elif step >= self._warm and (step - self._warm) % self._steps == 0:
            self.others.release()
            self._wait()
        return self._waited_ns

    def end(self) -> None:
        """Let the other run end as well."""
        self.others.release()

    def _wait(self) -> None:
        began_ns = time.perf_counter_ns()
        if not self.mine.acquire(timeout=TIMEOUT_S):
            raise RuntimeError(f"the other run did not pass the turn on within {TIMEOUT_S:.0f} s")
        self._waited_ns += time.perf_counter_ns() - began_ns
