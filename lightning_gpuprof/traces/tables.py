"""Files that hold no timeline: statistics already summed up, and hardware counters."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from lightning_gpuprof.traces.sniff import read_head

TABLE_SOURCES: dict[str, str] = {
    "stats-csv": "lightning_gpuprof.traces.stats_csv",
    "ncu-csv": "lightning_gpuprof.traces.nvidia.ncu_csv",
    "rocprofv3-counters": "lightning_gpuprof.traces.amd.counters_csv",
}
"""Reader modules by source name: each has `matches(head)` and `read_tables(path)`."""


@dataclass(frozen=True)
class NameStats:
    """One row of a statistics file: all calls of one kernel, copy or API function."""

    name: str
    count: int
    total_ns: int
    min_ns: int | None = None
    max_ns: int | None = None

    @property
    def mean_ns(self) -> float:
        """Total over count."""
        return self.total_ns / self.count if self.count else 0.0


@dataclass(frozen=True)
class Counter:
    """One value of a hardware counter or metric for one kernel launch."""

    launch: int
    kernel: str
    name: str
    value: float | str
    unit: str = ""
    section: str = ""


@dataclass(frozen=True)
class Tables:
    """The content of a file without a timeline."""

    source: str
    kind: str
    stats: tuple[NameStats, ...] = ()
    counters: tuple[Counter, ...] = ()
    warnings: tuple[str, ...] = field(default=())
    others: "tuple[Tables, ...]" = ()


def open_tables(path: str) -> Tables | None:
    """Read a file of statistics or counters; None if it is neither."""
    head = read_head(path)
    readers: Iterator[Any] = map(import_module, TABLE_SOURCES.values())
    return next((reader.read_tables(path) for reader in readers if reader.matches(head)), None)
