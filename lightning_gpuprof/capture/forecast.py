"""Says before a window how large its trace will be, and how much slower its steps."""

from collections.abc import Callable

from lightning_gpuprof.schedule import Schedule
from lightning_gpuprof.units import size

MOST_BYTES = 500_000_000
"""Larger traces are beyond what viewers open, as `trace-too-large` has it."""
MIN_STEPS = 20
"""A first window of fewer steps is not worth a recorded step before it."""
PLAIN_STEPS = 2
"""Steps in a row that nobody records, before one is: the last tells how long a step takes."""


class Forecast:
    """Knows how large and how slow a recorded step is: from one recorded early, or a window.

    `steps_per_unit` is None where it is unknown. `explicit`: the schedule is the user's own.
    """

    def __init__(
        self,
        schedule: Schedule,
        steps_per_unit: int | None,
        *,
        explicit: bool,
        now: Callable[[], int],
    ) -> None:
        self._per_unit = steps_per_unit or 0
        self._steps = schedule.active * self._per_unit
        self._now = now
        self._at: int | None = None
        self._seen = 0
        self._plain_ns = self._recorded_ns = self._step_bytes = 0.0
        self.wanted = explicit and self._steps >= MIN_STEPS
        """A step is to be recorded before the first window."""

    @property
    def ready(self) -> bool:
        """The step that begins is the one to record."""
        return self.wanted and self._seen >= PLAIN_STEPS

    def begin_step(self, *, plain: bool) -> None:
        """A step begins; `plain`: it follows one that no profiler was at work in."""
        at, self._at = self._at, self._now()
        if plain and at is not None:
            self._plain_ns = self._at - at
            self._seen += 1

    def begin_epoch(self) -> None:
        """The next step follows none."""
        self._at, self._seen = None, 0

    def learn(self, num_bytes: int, steps: int, took_ns: int) -> None:
        """So large a trace of so many steps was recorded in this time."""
        self._step_bytes, self._recorded_ns = num_bytes / steps, took_ns / steps

    def text(self) -> str | None:
        """Return the forecast of the next window, with a smaller one if it is too large."""
        if not self._step_bytes or not self._steps:
            return None
        num_bytes, slower = self._step_bytes * self._steps, ""
        if self._plain_ns and self._recorded_ns:
            ratio = self._recorded_ns / self._plain_ns
            slower = f", and each step takes {max(1.0, ratio):.1f} times as long"
        said = (
            f"The next profiler window records {self._steps} steps: its trace will have about "
            f"{size(num_bytes)} before compression{slower}."
        )
        if num_bytes <= MOST_BYTES:
            return said
        fewer = max(1, int(MOST_BYTES / self._step_bytes))
        units = fewer // self._per_unit
        change = f"active={units}" if units else f"unit='step', active={fewer}"
        return f"{said} Viewers fail above 500 MB: set {change}, or record no stacks."
