"""When torch.profiler warms up and records: pure arithmetic on steps or epochs."""

from dataclasses import dataclass, replace
from enum import Enum

from lightning_gpuprof.errors import ConfigError

MAX_LISTED_CYCLES = 4
"""The number of cycles that a sentence lists in full. Of more cycles it lists the first and the
last."""


class ScheduledAction(Enum):
    """What the profiler does during a unit."""

    IDLE = "idle"
    WARM_UP = "warm_up"
    RECORD = "record"


@dataclass(frozen=True)
class Schedule:
    """Cycles of warm-up and recording, after a wait that is skipped once.

    In torch.profiler's terms: `schedule(skip_first=wait, wait=0, warmup=warmup, active=active,
    repeat=repeat + 1)`.

    Args:
        unit: "step" or "epoch".
        wait: Units skipped once, at the start.
        warmup: Units of each cycle in which the profiler is on and its events are dropped.
        active: Units of each cycle that are recorded.
        repeat: Further cycles after the first.

    Raises:
        ConfigError: Nothing would be recorded, or a number is negative.

    >>> schedule = Schedule(unit="epoch", wait=3, warmup=1, active=3, repeat=1)
    >>> schedule.cycles, schedule.needed()
    (2, 11)
    >>> schedule.at(4), schedule.at(7)
    ((0, <ScheduledAction.RECORD: 'record'>), (1, <ScheduledAction.WARM_UP: 'warm_up'>))
    """

    unit: str
    wait: int
    warmup: int
    active: int
    repeat: int

    def __post_init__(self) -> None:
        """Check the unit and the numbers."""
        if self.unit not in ("step", "epoch"):
            raise ConfigError(
                f"The profiler schedule's unit={self.unit!r} is unknown. Pass 'step' or 'epoch'."
            )
        if self.active < 1:
            raise ConfigError(
                f"A profiler schedule with active={self.active} would never record. Pass 1 or "
                "more, or trace=False to record no trace."
            )
        for name in ("wait", "warmup", "repeat"):
            if getattr(self, name) < 0:
                raise ConfigError(
                    f"The profiler schedule's {name}={getattr(self, name)} is negative. "
                    "Pass 0 or more."
                )

    @property
    def cycles(self) -> int:
        """The number of traces that a run of sufficient length gives."""
        return self.repeat + 1

    def needed(self, cycles: int | None = None) -> int:
        """Return how many units a run must have for its first `cycles`, by default for all."""
        number = self.cycles if cycles is None else cycles
        return self.wait + (self.warmup + self.active) * number

    def at(self, unit: int) -> tuple[int, ScheduledAction]:
        """Return the cycle that a unit belongs to (-1 for none) and the profiler's action."""
        length = self.warmup + self.active
        cycle, offset = divmod(unit - self.wait, length)
        if unit < self.wait or cycle >= self.cycles:
            return -1, ScheduledAction.IDLE
        return cycle, ScheduledAction.WARM_UP if offset < self.warmup else ScheduledAction.RECORD

    def next_change(self, unit: int) -> int | None:
        """Return the first later unit at which the action changes, or None at the end."""
        if unit < self.wait:
            return self.wait
        length = self.warmup + self.active
        cycle, offset = divmod(unit - self.wait, length)
        if cycle >= self.cycles:
            return None
        return unit - offset + (self.warmup if offset < self.warmup else length)

    def first_free(self, unit: int, length: int) -> int:
        """Return the first unit, from `unit` on, before `length` units in which nothing happens.

        >>> schedule = Schedule(unit="step", wait=10, warmup=2, active=3, repeat=0)
        >>> schedule.first_free(2, 7), schedule.first_free(4, 7), schedule.first_free(40, 7)
        (2, 15, 40)
        """
        return unit if unit + length <= self.wait else max(unit, self.needed())

    def fitting(self, units: int) -> int:
        """Return how many whole cycles fit into a run of `units` units."""
        return min(self.cycles, max(0, (units - self.wait) // (self.warmup + self.active)))

    def recorded(self, length: int) -> str:
        """Say which units are recorded in a run of `length` units.

        Units count from 0, as Lightning counts them.

        >>> Schedule(unit="epoch", wait=3, warmup=1, active=3, repeat=1).recorded(10)
        'epochs 4 to 6, then epochs 8 to 9'
        """
        spans = []
        for cycle in range(self.cycles):
            first = self.needed(cycle) + self.warmup
            if first >= length:
                break
            last = min(first + self.active, length) - 1
            several = f"{self.unit}s {first} to {last}"
            spans.append(several if last > first else f"{self.unit} {first}")
        if len(spans) > MAX_LISTED_CYCLES:
            spans[MAX_LISTED_CYCLES // 2 : -1] = ["so on"]
        return ", then ".join(spans)

    def explain(self) -> str:
        """Return the calculation of `needed` as text.

        >>> Schedule(unit="epoch", wait=3, warmup=1, active=3, repeat=1).explain()
        '3 + (1 + 3) * 2 = 11 epochs'
        """
        factor = f" * {self.cycles}" if self.repeat else ""
        return (
            f"{self.wait} + ({self.warmup} + {self.active}){factor} = {self.needed()} {self.unit}s"
        )


DEFAULT_SCHEDULE = Schedule(unit="step", wait=10, warmup=2, active=3, repeat=0)
"""Records early, so that short runs are traced too, yet after compilation and cuDNN's first
choices of algorithms."""
EPOCH_SCHEDULE = Schedule(unit="epoch", wait=3, warmup=1, active=3, repeat=1)
"""The default if the schedule counts epochs: the numbers of hand-written profiling guides."""


def chosen_schedule(unit: str | None, *numbers: int | None) -> tuple[Schedule, bool]:
    """Return the schedule with defaults filled in, and whether the user has set any of it.

    Args:
        unit: "step" or "epoch".
        *numbers: wait, warmup, active and repeat, in this order; None stands for the default.

    Raises:
        ConfigError: The schedule would never record.

    >>> chosen_schedule(None, None, None, None, None)[0].explain()
    '10 + (2 + 3) = 15 steps'
    >>> chosen_schedule("epoch", None, None, None, 0)[0].explain()
    '3 + (1 + 3) = 7 epochs'
    """
    explicit = unit is not None or any(number is not None for number in numbers)
    base = EPOCH_SCHEDULE if unit == EPOCH_SCHEDULE.unit else DEFAULT_SCHEDULE
    names = ("wait", "warmup", "active", "repeat")
    given = {
        name: number for name, number in zip(names, numbers, strict=True) if number is not None
    }
    return replace(base, unit=unit or base.unit, **given), explicit


def too_short(schedule: Schedule, length: int) -> str:
    """Say that a run of `length` units is too short for a schedule, and how long it must be."""
    names = ("wait", "warmup", "active", "repeat")
    numbers = ", ".join(f"{name}={getattr(schedule, name)}" for name in names)
    whole_cycles = schedule.fitting(length)
    if whole_cycles:
        consequence = (
            f"only {whole_cycles} of its {schedule.cycles} cycles would be recorded whole: "
            f"{schedule.recorded(length)}"
        )
    else:
        consequence = "nothing would be recorded"
    minimum = f"{schedule.needed(1)} {schedule.unit}s"
    if schedule.repeat:
        minimum = f"{minimum} for the first cycle and {schedule.needed()} for all"
    return (
        f"The profiler schedule ({numbers}) needs {schedule.explain()}, but this run has at most "
        f"{length}, so {consequence}. Train for at least {minimum}, or lower the numbers."
    )
