"""Compares the phases of two runs and their named parts, and says which differ beyond chance."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np

from lightning_gpuprof.analysis.compare.bootstrap import (
    Certainty,
    SteadyTime,
    TimeIntervals,
    intervals_of_times,
)
from lightning_gpuprof.analysis.compare.change import Change, Side
from lightning_gpuprof.analysis.run.phase_split import PerStep
from lightning_gpuprof.records.phases import Phase

_Key = TypeVar("_Key")


@dataclass(frozen=True)
class PhaseChange(Change):
    """The mean time of a phase in both runs; `name` is the phase's value."""

    intervals: TimeIntervals | None = field(default=None, kw_only=True)
    """None if a run did not measure the phase, or for a phase between epochs."""

    @property
    def phase(self) -> Phase:
        """The phase."""
        return Phase(self.name)

    @property
    def certainty(self) -> Certainty | None:
        """How sure the difference is; None without intervals."""
        return None if self.intervals is None else self.intervals.certainty

    @property
    def sure(self) -> bool:
        """Whether the difference is beyond what chance explains of so many steps."""
        return self.certainty is Certainty.SURE


@dataclass(frozen=True)
class PartChange(PhaseChange):
    """The mean time of a named part of a phase, such as a callback, in both runs."""

    part: str


def phase_changes(base: Side, new: Side) -> tuple[PhaseChange, ...]:
    """Compare the phases of two runs, in the order of a step; phases without time are left out."""
    old, now = (
        _steady_times(side, {phase: side.run.per_step(phase) for phase in Phase})
        for side in (base, new)
    )
    intervals = _intervals(old, now)
    changes = []
    for phase in Phase:
        means = [times[phase].mean_ns if phase in times else None for times in (old, now)]
        if any(means):
            changes.append(PhaseChange(phase.value, *means, intervals=intervals.get(phase)))
    return tuple(changes)


def part_changes(base: Side, new: Side) -> tuple[PartChange, ...]:
    """Compare the named parts of phases, the largest change first; a missing part took no time."""
    old, now = (
        _steady_times(side, {(part.phase, part.name): part.per_step for part in side.run.parts})
        for side in (base, new)
    )
    keys = [*{**old, **now}]
    if (of_base := _no_time(base)) and (of_new := _no_time(new)):
        old = {key: old.get(key, of_base) for key in keys}
        now = {key: now.get(key, of_new) for key in keys}
    intervals, changes = _intervals(old, now), []
    for key in keys:
        means = [times[key].mean_ns if key in times else 0.0 for times in (old, now)]
        phase, name = key
        changes.append(
            PartChange(phase.value, means[0], means[1], name, intervals=intervals.get(key))
        )
    return tuple(sorted(changes, key=lambda change: -abs(change.shift)))


def _steady_times(side: Side, times: Mapping[_Key, PerStep | None]) -> dict[_Key, SteadyTime]:
    return {
        key: SteadyTime(time.mean_ns / side.divisor, time.blocks)
        for key, time in times.items()
        if time is not None
    }


def _no_time(side: Side) -> SteadyTime | None:
    """Return the time of a part that a run does not have; None for a run without steps."""
    for stats in side.run.phases.values():
        if stats.per_step is not None:
            blocks = stats.per_step.blocks
            zeros = (replace(of, means_ns=np.zeros_like(of.means_ns)) for of in blocks)
            return SteadyTime(0.0, tuple(zeros))
    return None


def _intervals(
    base: Mapping[_Key, SteadyTime], new: Mapping[_Key, SteadyTime]
) -> dict[_Key, TimeIntervals]:
    """Return the intervals of the times that both sides have."""
    both = [key for key in base if key in new]
    intervals = intervals_of_times([base[key] for key in both], [new[key] for key in both])
    return dict(zip(both, intervals, strict=True))
