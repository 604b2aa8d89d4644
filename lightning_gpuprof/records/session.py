"""Sessions of typed records with numpy columns: what is read from record files."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from lightning_gpuprof.arrays import Int64
from lightning_gpuprof.records import schema
from lightning_gpuprof.records.phases import Phase

_R = TypeVar("_R")


@dataclass(frozen=True, eq=False)
class Rollup:
    """A rank's session by stretches of steps, in their order.

    `first_step` and `last_step`, `steps`, `steady`, `marked` and `median_ns` have a value per
    stretch, and so has the sum of every column in `sums`; see `Stretch`.
    """

    first_step: Int64
    last_step: Int64
    steps: Int64
    steady: Int64
    marked: Int64
    median_ns: Int64
    sums: dict[str, Int64]

    def mean_ns(self, name: str) -> int | None:
        """Return the mean of a column over the steady steps; None if there are none."""
        count = int(self.steady.sum())
        if not count or name not in self.sums:
            return None
        return round(int(self.sums[name].sum()) / count)


@dataclass(frozen=True)
class Session:
    """A rank's records of a fit, validate, test or predict call.

    `columns` holds, for every column name of `StepsWindow`, an int64 for every step in step order.
    Windows that lack a column are filled with 0 (host) or `NOT_MEASURED` (device).
    """

    start: schema.RunStart
    records: tuple[schema.Record, ...]
    columns: Mapping[str, Int64]
    warnings: tuple[str, ...] = ()
    rollup: Rollup | None = None
    """Sums over the whole session, if `columns` holds only the steps that ranks are compared by."""
    rolled: "Session | None" = None
    """The same session as it is compared with other ranks, if these have a `rollup`."""

    @property
    def end(self) -> schema.RunEnd | None:
        """The closing record; None while the run is live or if it was killed."""
        ends = self.all(schema.RunEnd)
        return ends[-1] if ends else None

    @property
    def steps(self) -> int:
        """Number of steps that `columns` holds."""
        return len(self.columns["dur_ns"]) if "dur_ns" in self.columns else 0

    @property
    def step_numbers(self) -> Int64:
        """The number of every step; if numbers were not recorded, steps count from 0."""
        return self.columns.get("step", np.arange(self.steps))

    @property
    def recorded_steps(self) -> int:
        """Number of recorded steps, of which `columns` may hold the last alone (see `rollup`)."""
        return self.steps if self.rollup is None else int(self.rollup.steps.sum())

    def all(self, kind: type[_R]) -> list[_R]:
        """Return the records of a type in the order in which they were written."""
        return [record for record in self.records if isinstance(record, kind)]

    def last(self, kind: type[_R]) -> _R | None:
        """Return the last record of a type; None if there is none."""
        return next((record for record in reversed(self.records) if isinstance(record, kind)), None)

    def phase_ns(self, phase: Phase) -> Int64 | None:
        """Return the host self time of a phase in every step; None if it was not measured."""
        if phase.value not in self.start.phases or not self.steps:
            return None
        zeros = np.zeros(self.steps, dtype=np.int64)
        return self.columns.get(f"phase/{phase.value}", zeros)

    def phases_ns(self, phases: Iterable[Phase]) -> dict[Phase, Int64]:
        """Return `phase_ns` for the given phases, without the phases that were not measured."""
        columns = {phase: self.phase_ns(phase) for phase in phases}
        return {phase: column for phase, column in columns.items() if column is not None}


@dataclass(frozen=True)
class RankRecords:
    """All sessions of a rank's record file."""

    rank: int
    sessions: tuple[Session, ...]
    warnings: tuple[str, ...]
    newer: str = ""
    """A warning about a session that only another version can read; empty if there is none."""
