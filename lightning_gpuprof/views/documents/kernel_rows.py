"""Hardware counters as one row per kernel: its time, how it uses the device, its limit."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import Any

from lightning_gpuprof.traces.files import scaled
from lightning_gpuprof.traces.tables import Counter

SHARES = ("occupancy_frac", "sm_frac", "dram_frac")
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


def kernel_rows(counters: Sequence[Counter]) -> list[dict[str, Any]]:
    """Sum up what counters say of each kernel; None where none was collected for it."""
    launches: dict[str, dict[int, dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
    for counter in counters:
        for key, value in _figure(counter):
            launches[counter.kernel][counter.launch][key] = value
    rows = [_row(name, list(of.values())) for name, of in launches.items()]
    return sorted(rows, key=lambda row: -(row["total_ns"] or 0))


def _figure(counter: Counter) -> Iterator[tuple[str, float]]:
    key, value, unit = _FIGURES.get(counter.name), counter.value, counter.unit
    if key is None or isinstance(value, str):
        return
    if key == "total_ns":
        took = scaled(f"{value:f}", _TIME_UNITS.get(unit, unit or "ns"))
        yield from () if took is None else ((key, float(took)),)
    elif unit in ("", "%"):  # a throughput may be in bytes per second too
        yield key, value / 100


def _row(name: str, launches: Sequence[dict[str, float]]) -> dict[str, Any]:
    taken = [one["total_ns"] for one in launches if "total_ns" in one]
    row: dict[str, Any] = {"name": name, "count": len(launches)}
    row["total_ns"] = round(sum(taken)) if taken else None
    for key in SHARES:
        found = [one[key] for one in launches if key in one]
        row[key] = fmean(found) if found else None
    return {**row, "limit": _limit(row["sm_frac"], row["dram_frac"])}


def _limit(compute: float | None, memory: float | None) -> str | None:
    """Return which roof a kernel is near; None where one of them was not measured."""
    if compute is None or memory is None:
        return None
    if max(compute, memory) < NEAR:
        return "latency"
    return "compute" if compute > memory else "memory"
