"""Kernels by name and by category: count, time and share."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from lightning_gpuprof.analysis.trace.grouping import sums_by_name
from lightning_gpuprof.analysis.trace.kernel_category import (
    MATRIX_CATEGORIES,
    categorize,
    uses_tensor_cores,
)
from lightning_gpuprof.analysis.trace_tables import (
    CategoryRow,
    KernelRow,
    Occupancy,
    RooflineRow,
    ThinKernels,
)
from lightning_gpuprof.arrays import Int32, Int64
from lightning_gpuprof.traces.timeline import CATEGORY_ID, OCCUPANCY, DeviceEvents, Timeline, select

SHORT_NS = 10_000
"""A kernel shorter than this takes about as long to launch as to run: a launch by CUDA takes
2 to 10 µs on the host."""
MIN_ROOF_FRAC = 0.10
"""Kernels under 10 µs that reach less of the memory's bandwidth do not fill the device."""
KNOWN_FRAC = 0.5
"""The share on matrix units is known if the names of kernels that take this much of the time of
products, convolutions and attention say whether they use them."""
NAMES_MATRIX_UNITS = ("nvidia", "amd", None)
"""Makers in whose kernels' names the use of matrix units shows."""


class KernelTable(Struct, frozen=True):
    """Kernels by name and category, longest total first; `occupancy` has `OCCUPANCY` of all."""

    kernels: tuple[KernelRow, ...]
    categories: tuple[CategoryRow, ...]
    total_ns: int
    count: int
    gemm_frac: float | None
    tensor_core_frac: float | None
    short: ThinKernels | None
    occupancy: Occupancy | None


def kernel_table(timeline: Timeline) -> KernelTable:
    """Sum up a trace's kernels; copies and fills are not kernels."""
    events = select(timeline.device, timeline.device.category == CATEGORY_ID["kernel"])
    dur_ns = events.dur_ns
    total = int(dur_ns.sum())
    named = all(device.vendor in NAMES_MATRIX_UNITS for device in timeline.devices)
    rows = _by_name(timeline.names, events, total, named=named)
    categories = _by_category(rows, total)
    whole = _occupancy(events, np.zeros_like(events.name), 1)[0]
    gemm = sum(row.total_ns for row in rows if row.category == "gemm")
    matrix = sum(row.total_ns for row in rows if row.category in MATRIX_CATEGORIES)
    on_matrix_units = sum(row.total_ns for row in rows if row.tensor_cores)
    known = sum(row.total_ns for row in rows if row.tensor_cores is not None)
    return KernelTable(
        kernels=rows,
        categories=categories,
        total_ns=total,
        count=len(events),
        gemm_frac=gemm / total if total else None,
        tensor_core_frac=on_matrix_units / known if known >= KNOWN_FRAC * matrix > 0 else None,
        short=_short(dur_ns),
        occupancy=Occupancy(**whole) if whole else None,
    )


def _by_name(
    names: Sequence[str], events: DeviceEvents, total: int, *, named: bool
) -> tuple[KernelRow, ...]:
    filled = _occupancy(events, events.name, len(names))
    rows = []
    for sums in sums_by_name(names, events.name, events.dur_ns):
        category = categorize(sums.name)
        rows.append(
            KernelRow(
                name=sums.name,
                category=category,
                count=sums.count,
                total_ns=sums.total_ns,
                mean_ns=sums.mean_ns,
                min_ns=sums.min_ns,
                max_ns=sums.max_ns,
                frac=sums.total_ns / total if total else 0.0,
                tensor_cores=uses_tensor_cores(sums.name)
                if category in MATRIX_CATEGORIES and named
                else None,
                **filled[sums.key],
            )
        )
    return tuple(rows)


def _occupancy(events: DeviceEvents, group: Int32, groups: int) -> list[dict[str, float]]:
    """Return `OCCUPANCY` by group, as means over the time for which it is known."""
    means_by_group: list[dict[str, float]] = [{} for _ in range(groups)]
    for key in OCCUPANCY:
        values = getattr(events, key)
        known = values >= 0
        if key == "occupancy_frac":  # Kineto also writes 0 where it is not known
            known &= (values > 0) | (events.warps_per_sm < 1)
        weights = events.dur_ns * known
        whole = np.bincount(group, weights, groups)
        means = np.bincount(group, weights * values, groups) / np.maximum(whole, 1)
        for i in np.flatnonzero(whole).tolist():
            means_by_group[i][key] = float(means[i])
    return means_by_group


def _by_category(rows: tuple[KernelRow, ...], total: int) -> tuple[CategoryRow, ...]:
    count: Counter[str] = Counter()
    time: Counter[str] = Counter()
    for row in rows:
        count[row.category] += row.count
        time[row.category] += row.total_ns
    table = [
        CategoryRow(name, ns, count[name], ns / total if total else 0.0)
        for name, ns in time.items()
    ]
    return tuple(sorted(table, key=lambda row: (-row.total_ns, row.category)))


def _short(dur_ns: Int64) -> ThinKernels | None:
    if not len(dur_ns):
        return None
    short = dur_ns < SHORT_NS
    return ThinKernels(int(short.sum()), int(dur_ns[short].sum()), float(short.mean()))


def fills_memory(row: RooflineRow) -> bool:
    """Return whether an operator's kernels move enough bytes to be bound by the memory."""
    kernels = row.kernel_count or row.count
    if not row.bytes_per_s or not row.peak_bytes_per_s or not kernels:
        return True
    fast = row.bytes_per_s >= MIN_ROOF_FRAC * row.peak_bytes_per_s
    return fast or row.total_ns >= SHORT_NS * kernels
