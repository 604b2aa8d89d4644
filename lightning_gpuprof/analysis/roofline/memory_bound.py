"""Which kernels have bytes enough to be bound by memory."""

from collections.abc import Mapping
from typing import Any

from lightning_gpuprof.analysis.trace.kernels import THIN_NS

MIN_ROOF_FRAC = 0.10
"""A kernel below 10 µs that moves its bytes ten times slower than the memory could has too little
work to fill the device."""


def fills_memory(row: Mapping[str, Any]) -> bool:
    """Tell whether kernels of a row of the roofline have bytes enough to be bound by them."""
    rate, peak = row.get("bytes_per_s"), row.get("peak_bytes_per_s")
    kernels = row.get("kernel_count") or row.get("count")
    if not rate or not peak or not kernels:
        return True
    return bool(rate >= MIN_ROOF_FRAC * peak or row.get("total_ns", 0) >= THIN_NS * kernels)
