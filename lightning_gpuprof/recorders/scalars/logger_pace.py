"""Hands values to a logger at the pace that it can take."""

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lightning_gpuprof.session.safe_logger import SafeLogger

Columns = Mapping[str, Sequence[float | None]]
"""By name, a value of each step, None where it gave none."""
SLOW_NS = 500_000
"""A call that takes longer talks to a server, and costs too much in every step."""
_TRIALS = 3


class LoggerPace:
    """One logger, and which steps it gets.

    Args:
        logger: A Lightning logger.
        every: It gets one step in this many, 0 for none. None: every step, unless its first calls
            show that it is slow.
        slow_every: What a slow logger gets: the Trainer's own `log_every_n_steps`.
        now: Returns nanoseconds.
    """

    def __init__(
        self,
        logger: Any,
        *,
        every: int | None,
        slow_every: int,
        now: Callable[[], int] = time.perf_counter_ns,
    ) -> None:
        self.logger = logger
        self._safe = SafeLogger(logger)
        self._every = 1 if every is None else every
        self._slow_every = max(1, slow_every)
        self._now = now
        self._trials_ns: list[int] | None = [] if every is None else None
        self._to_save = False

    def log_steps(self, steps: Sequence[int], columns: Columns) -> None:
        """Hand several steps' values on, leaving out those that the logger does not get.

        Args:
            steps: The logger's step numbers.
            columns: By name, the value of each step, None where it gave none.
        """
        for index, step in enumerate(steps):
            given = ((name, column[index]) for name, column in columns.items())
            values = {name: value for name, value in given if value is not None}
            if values and self.is_due(step):
                self.log(values, step)

    def save(self) -> None:
        """Let the logger write its files, unless that has been done."""
        if self._to_save:
            self._to_save = False
            self._safe.save()

    def is_due(self, step: int) -> bool:
        """Tell whether the logger gets this step."""
        return self._every > 0 and step % self._every == 0

    def log(self, values: dict[str, float], step: int) -> None:
        """Hand values on; the logger may keep or change the dict."""
        self._to_save = True
        if self._trials_ns is None:
            self._safe.log(values, step)
            return
        begun = self._now()
        self._safe.log(values, step)
        self._judge(self._now() - begun)

    def _judge(self, took_ns: int) -> None:
        assert self._trials_ns is not None
        self._trials_ns.append(took_ns)
        if len(self._trials_ns) < _TRIALS:
            return
        # The fastest: the first call may open files or a connection.
        fastest, self._trials_ns = min(self._trials_ns), None
        if fastest > SLOW_NS and self._slow_every > 1:
            self._every = self._slow_every
            warnings.warn(
                f"{type(self.logger).__name__} takes {fastest / 1e6:.1f} ms per call, so "
                f"DeferredLoss hands it one step in {self._every} (the Trainer's "
                "log_every_n_steps); the run's records hold every step. Pass "
                "DeferredLoss(log_every_n_steps=1) to log them all.",
                UserWarning,
                stacklevel=2,
            )
