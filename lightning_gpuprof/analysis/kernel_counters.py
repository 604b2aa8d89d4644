"""Hardware counters as one row per kernel: its time, how it uses the device, its limit."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Literal

from msgspec import Struct

from lightning_gpuprof.traces.files import scaled
from lightning_gpuprof.traces.tables import Counter

_FIGURES = {
    "Duration": "total_ns",
    "gpu__time_duration.sum": "total_ns",
    "gpu__time_duration.avg": "total_ns",
    "Achieved Occupancy": "occupancy_frac",
    "sm__warps_active.avg.pct_of_peak_sustained_active": "occupancy_frac",
    "OccupancyPercent": "occupancy_frac",
    "Compute (SM) Throughput": "sm_frac",
    "SM [%]": "sm_frac",
    "sm__throughput.avg.pct_of_peak_sustained_elapsed": "sm_frac",
    "VALUBusy": "sm_frac",
    "DRAM Throughput": "dram_frac",
    "dram__throughput.avg.pct_of_peak_sustained_elapsed": "dram_frac",
    "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed": "dram_frac",
    "MemUnitBusy": "dram_frac",
}
"""Metrics of Nsight Compute by both of their names, and rocprof's derived counters."""
_TIME_UNITS = {"nsecond": "ns", "usecond": "us", "msecond": "ms", "second": "s"}
NEAR = 0.6
"""Of a peak: below it in both, Nsight Compute calls a kernel latency-bound."""


class KernelCounters(Struct, frozen=True, kw_only=True):
    """What counters say of all launches of a kernel; None where none was collected for it."""

    name: str
    count: int
    total_ns: int | None = None
    occupancy_frac: float | None = None
    sm_frac: float | None = None
    """Of the peak of computing."""
    dram_frac: float | None = None
    """Of the peak of the device's memory."""
    limit: Literal["compute", "memory", "latency"] | None = None


_ByLaunch = Mapping[int, float]


def kernel_counters(counters: Sequence[Counter]) -> tuple[KernelCounters, ...]:
    """Sum up what counters say of each kernel, the longest time first."""
    kernels: dict[str, dict[str, dict[int, float]]] = {}
    for counter in counters:
        key, value = _FIGURES.get(counter.name), _value(counter)
        if key is not None and value is not None:
            figures = kernels.setdefault(counter.kernel, defaultdict(dict))
            figures[key][counter.launch] = value
    rows = (_row(name, figures) for name, figures in kernels.items())
    return tuple(sorted(rows, key=lambda row: -(row.total_ns or 0)))


def _value(counter: Counter) -> float | None:
    """Return a time in ns or a share; None of a text, or of a throughput in bytes per second."""
    value, unit = counter.value, counter.unit
    if isinstance(value, str):
        return None
    if _FIGURES.get(counter.name) == "total_ns":
        return scaled(f"{value:f}", _TIME_UNITS.get(unit, unit or "ns"))
    return value / 100 if unit in ("", "%") else None


def _row(name: str, figures: Mapping[str, _ByLaunch]) -> KernelCounters:
    times = figures.get("total_ns", {})
    compute, memory = _mean(figures, "sm_frac"), _mean(figures, "dram_frac")
    return KernelCounters(
        name=name,
        count=len({launch for by_launch in figures.values() for launch in by_launch}),
        total_ns=round(sum(times.values())) if times else None,
        occupancy_frac=_mean(figures, "occupancy_frac"),
        sm_frac=compute,
        dram_frac=memory,
        limit=_limit(compute, memory),
    )


def _mean(figures: Mapping[str, _ByLaunch], key: str) -> float | None:
    values = figures.get(key)
    return fmean(values.values()) if values else None


def _limit(
    compute: float | None, memory: float | None
) -> Literal["compute", "memory", "latency"] | None:
    if compute is None or memory is None:
        return None
    if max(compute, memory) < NEAR:
        return "latency"
    return "compute" if compute > memory else "memory"
