"""Kernels by name and by category: count, time and share."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
from msgspec import Struct

from lightning_gpuprof.analysis.trace.grouping import counted, highest, lowest, summed
from lightning_gpuprof.analysis.trace.kernel_category import (
    MATRIX_CATEGORIES,
    categorize,
    uses_tensor_cores,
)
from lightning_gpuprof.arrays import Int32, Int64
from lightning_gpuprof.traces.timeline import CATEGORY_ID, Timeline

THIN_NS = 10_000
"""A kernel shorter than this costs about as much to launch as it runs (CUDA's launch takes
2 to 10 us on the host): the threshold that the peers use for "short kernels" too."""
MIN_ROOF_FRAC = 0.10
"""A thin kernel that moves its bytes ten times slower than the memory could fills no device."""


class KernelStats(Struct, frozen=True):
    """All launches of kernels with one name; `frac` is of all kernels' summed time."""

    name: str
    category: str
    count: int
    total_ns: int
    mean_ns: float
    min_ns: int
    max_ns: int
    frac: float
    tensor_cores: bool | None


class CategoryStats(Struct, frozen=True):
    """All kernels of one category; `frac` is of all kernels' summed time."""

    category: str
    count: int
    total_ns: int
    frac: float


class ThinKernels(Struct, frozen=True):
    """Kernels below `THIN_NS`."""

    count: int
    total_ns: int
    count_frac: float


class KernelTable(Struct, frozen=True):
    """Kernels by name and category, longest total first."""

    kernels: tuple[KernelStats, ...]
    categories: tuple[CategoryStats, ...]
    total_ns: int
    count: int
    gemm_frac: float | None
    tensor_core_frac: float | None
    thin: ThinKernels | None


def kernel_table(timeline: Timeline) -> KernelTable:
    """Sum up a trace's kernels; copies and fills are not kernels."""
    events = timeline.device
    is_kernel = events.category == CATEGORY_ID["kernel"]
    name, dur_ns = events.name[is_kernel], events.dur_ns[is_kernel]
    total = int(dur_ns.sum())
    rows = _by_name(timeline, name, dur_ns, total)
    categories = _by_category(rows, total)
    gemm = sum(row.total_ns for row in rows if row.category == "gemm")
    matrix = sum(row.total_ns for row in rows if row.category in MATRIX_CATEGORIES)
    on_matrix_units = sum(row.total_ns for row in rows if row.tensor_cores)
    return KernelTable(
        kernels=rows,
        categories=categories,
        total_ns=total,
        count=len(name),
        gemm_frac=gemm / total if total else None,
        tensor_core_frac=on_matrix_units / matrix if matrix else None,
        thin=_thin(dur_ns),
    )


def _by_name(timeline: Timeline, name: Int32, dur_ns: Int64, total: int) -> tuple[KernelStats, ...]:
    names = timeline.names
    count = counted(name, len(names))
    sums = summed(name, dur_ns, len(names))
    low, high = lowest(name, dur_ns, len(names)), highest(name, dur_ns, len(names))
    rows = []
    for i in np.flatnonzero(count).tolist():
        category = categorize(names[i])
        rows.append(
            KernelStats(
                name=names[i],
                category=category,
                count=int(count[i]),
                total_ns=int(sums[i]),
                mean_ns=float(sums[i] / count[i]),
                min_ns=int(low[i]),
                max_ns=int(high[i]),
                frac=float(sums[i] / total) if total else 0.0,
                tensor_cores=uses_tensor_cores(names[i]) if category in MATRIX_CATEGORIES else None,
            )
        )
    return tuple(sorted(rows, key=lambda row: (-row.total_ns, row.name)))


def _by_category(rows: tuple[KernelStats, ...], total: int) -> tuple[CategoryStats, ...]:
    count: Counter[str] = Counter()
    time: Counter[str] = Counter()
    for row in rows:
        count[row.category] += row.count
        time[row.category] += row.total_ns
    table = [
        CategoryStats(name, count[name], ns, ns / total if total else 0.0)
        for name, ns in time.items()
    ]
    return tuple(sorted(table, key=lambda row: (-row.total_ns, row.category)))


def _thin(dur_ns: Int64) -> ThinKernels | None:
    if not len(dur_ns):
        return None
    thin = dur_ns < THIN_NS
    return ThinKernels(int(thin.sum()), int(dur_ns[thin].sum()), float(thin.mean()))


def fills_memory(row: Mapping[str, Any]) -> bool:
    """Tell whether kernels of a row of the roofline have bytes enough to be bound by them."""
    rate, peak = row.get("bytes_per_s"), row.get("peak_bytes_per_s")
    kernels = row.get("kernel_count") or row.get("count")
    if not rate or not peak or not kernels:
        return True
    return bool(rate >= MIN_ROOF_FRAC * peak or row.get("total_ns", 0) >= THIN_NS * kernels)
