"""When torch.profiler warms up and records: pure arithmetic on steps or epochs."""

from dataclasses import dataclass, replace
from enum import Enum

from lightning_gpuprof.errors import ConfigError

MOST_SAID = 4
"""Recordings that a sentence names one by one."""


class Action(Enum):
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
        ConfigError: Nothing would ever be recorded, or a number is negative.

    >>> schedule = Schedule(unit="epoch", wait=3, warmup=1, active=3, repeat=1)
    >>> schedule.cycles, schedule.needed()
    (2, 11)
    >>> schedule.at(4), schedule.at(7)
    ((0, <Action.RECORD: 'record'>), (1, <Action.WARM_UP: 'warm_up'>))
    """

    unit: str
    wait: int
    warmup: int
    active: int
    repeat: int

    def __post_init__(self) -> None:
        """Check the numbers."""
        if self.unit not in ("step", "epoch"):
            raise ConfigError(
                f"The profiler schedule's unit={self.unit!r} is unknown. Pass 'step' or 'epoch'."
            )
        if self.active < 1:
            raise ConfigError(
                f"A profiler schedule with active={self.active} would never record. Pass 1 or "
                "more, or trace=False to record none."
            )
        for name in ("wait", "warmup", "repeat"):
            if getattr(self, name) < 0:
                raise ConfigError(
                    f"The profiler schedule's {name}={getattr(self, name)} is negative. "
                    "Pass 0 or more."
                )

    @property
    def cycles(self) -> int:
        """How many traces a long enough run gives."""
        return self.repeat + 1

    def needed(self, cycles: int | None = None) -> int:
        """Return how many units a run must hold for the first cycles, by default for all."""
        number = self.cycles if cycles is None else cycles
        return self.wait + (self.warmup + self.active) * number

    def at(self, unit: int) -> tuple[int, Action]:
        """Return the cycle that a unit belongs to (-1 for none) and what happens in it."""
        length = self.warmup + self.active
        cycle, offset = divmod(unit - self.wait, length)
        if unit < self.wait or cycle >= self.cycles:
            return -1, Action.IDLE
        return cycle, Action.WARM_UP if offset < self.warmup else Action.RECORD

    def next_change(self, unit: int) -> int | None:
        """Return the first unit after this one at which something changes, if there is one."""
        if unit < self.wait:
            return self.wait
        length = self.warmup + self.active
        cycle, offset = divmod(unit - self.wait, length)
        if cycle >= self.cycles:
            return None
        return unit - offset + (self.warmup if offset < self.warmup else length)

    def fitting(self, units: int) -> int:
        """Return how many cycles fit into a run of so many units."""
        return min(self.cycles, max(0, (units - self.wait) // (self.warmup + self.active)))

    def recorded(self, length: int) -> str:
        """Say which units a run of so many records, counted from 0 as Lightning does.

        >>> Schedule(unit="epoch", wait=3, warmup=1, active=3, repeat=1).recorded(10)
        'epochs 4 to 6, then epochs 8 to 9'
        """
        first = [self.needed(cycle) + self.warmup for cycle in range(min(self.cycles, length))]
        spans = [(one, min(one + self.active, length) - 1) for one in first if one < length]
        said = [
            f"{self.unit} {one}" if one == last else f"{self.unit}s {one} to {last}"
            for one, last in spans
        ]
        if len(said) > MOST_SAID:
            said[MOST_SAID // 2 : -1] = ["so on"]
        return ", then ".join(said)

    def explain(self) -> str:
        """Return the sum that `needed` makes, as text.

        >>> Schedule(unit="epoch", wait=3, warmup=1, active=3, repeat=1).explain()
        '3 + (1 + 3) * 2 = 11 epochs'
        """
        factor = f" * {self.cycles}" if self.repeat else ""
        return (
            f"{self.wait} + ({self.warmup} + {self.active}){factor} = {self.needed()} {self.unit}s"
        )


DEFAULT_SCHEDULE = Schedule(unit="step", wait=10, warmup=2, active=3, repeat=0)
"""Early, so that short runs are traced too, yet after compilation and cudnn's first choices."""
EPOCH_SCHEDULE = Schedule(unit="epoch", wait=3, warmup=1, active=3, repeat=1)
"""The defaults where the numbers count epochs: those of hand-written profiling guides."""


def chosen_schedule(unit: str | None, *numbers: int | None) -> tuple[Schedule, bool]:
    """Fill in defaults for what was not given, and tell whether anything was.

    Args:
        unit: "step" or "epoch".
        *numbers: wait, warmup, active, repeat.

    Raises:
        ConfigError: The numbers given can never record.

    >>> chosen_schedule(None, None, None, None, None)[0].explain()
    '10 + (2 + 3) = 15 steps'
    >>> chosen_schedule("epoch", None, None, None, 0)[0].explain()
    '3 + (1 + 3) = 7 epochs'
    """
    explicit = unit is not None or any(number is not None for number in numbers)
    base = EPOCH_SCHEDULE if unit == EPOCH_SCHEDULE.unit else DEFAULT_SCHEDULE
    names = ("wait", "warmup", "active", "repeat")
    given = {name: n for name, n in zip(names, numbers, strict=True) if n is not None}
    return replace(base, unit=unit or base.unit, **given), explicit


def too_short(schedule: Schedule, length: int) -> str:
    """Say that a run of so many units cannot hold a schedule, and what would."""
    names = ("wait", "warmup", "active", "repeat")
    numbers = ", ".join(f"{name}={getattr(schedule, name)}" for name in names)
    fits, least = schedule.fitting(length), f"{schedule.needed(1)} {schedule.unit}s"
    result = "nothing would be recorded"
    if fits:
        part = f"only {fits} of its {schedule.cycles} cycles would be recorded whole"
        result = f"{part}: {schedule.recorded(length)}"
    if schedule.repeat:
        least = f"{least} for the first cycle and {schedule.needed()} for all"
    return (
        f"The profiler schedule ({numbers}) needs {schedule.explain()}, but this run has at most "
        f"{length}, so {result}. Train for at least {least}, or lower the "
        "numbers."
    )
