"""Hardware counters as one row per kernel: its time, how it uses the device, its limit."""

from collections.abc import Sequence
from itertools import starmap
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
    found: dict[str, dict[str, dict[int, float]]] = {}
    for counter in counters:
        key, value = _FIGURES.get(counter.name), _value(counter)
        if key is not None and value is not None:
            of = found.setdefault(counter.kernel, {one: {} for one in ("total_ns", *SHARES)})
            of[key][counter.launch] = value
    return sorted(starmap(_row, found.items()), key=lambda row: -(row["total_ns"] or 0))


def _value(counter: Counter) -> float | None:
    """Return a time in ns or a share; None of a text, or of a throughput in bytes per second."""
    value, unit = counter.value, counter.unit
    if isinstance(value, str):
        return None
    if _FIGURES.get(counter.name) == "total_ns":
        return scaled(f"{value:f}", _TIME_UNITS.get(unit, unit or "ns"))
    return value / 100 if unit in ("", "%") else None


def _row(name: str, figures: dict[str, dict[int, float]]) -> dict[str, Any]:
    took = figures["total_ns"].values()
    shares = {key: fmean(figures[key].values()) if figures[key] else None for key in SHARES}
    compute, memory, limit = shares["sm_frac"], shares["dram_frac"], None
    if compute is not None and memory is not None:
        limit = "compute" if compute > memory else "memory"
        limit = "latency" if max(compute, memory) < NEAR else limit
    return {
        "name": name,
        "count": len({launch for of in figures.values() for launch in of}),
        "total_ns": round(sum(took)) if took else None,
        **shares,
        "limit": limit,
    }
