"""What this machine has, asked of torch; run as a module, it prints JSON.

A process of its own, so that whoever asks need not load torch.
"""

import argparse
import json
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch.profiler import supported_activities

GEMM_SIZE = 8192
"""Products of this size keep any present GPU's matrix units busy for long enough to be timed."""
COPY_BYTES = 1 << 30
REPEATS = 10
DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}


def describe() -> dict[str, Any]:
    """Return torch's build, its devices and what its profiler can record."""
    has_gpu = torch.cuda.is_available()
    return {
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "hip": torch.version.hip,
        "activities": _activities(),
        "devices": [_device(index) for index in range(torch.cuda.device_count())]
        if has_gpu
        else [],
    }


def measure(index: int = 0) -> dict[str, Any]:
    """Measure products and copies on one GPU: the best of several, by device events."""
    with torch.cuda.device(index):
        free_bytes, _ = torch.cuda.mem_get_info(index)
        dtypes = ["fp32", "fp16", *(["bf16"] if torch.cuda.is_bf16_supported() else [])]
        if torch.version.hip is None and torch.cuda.get_device_capability(index)[0] >= 8:
            dtypes.append("tf32")
        return {
            "name": torch.cuda.get_device_properties(index).name,
            "flop_per_s": {
                name: gemm_flop_per_s(name, "cuda", size=gemm_size(free_bytes)) for name in dtypes
            },
            "memory_bytes_per_s": copy_bytes_per_s("cuda", min(COPY_BYTES, free_bytes // 4)),
        }


def gemm_size(free_bytes: int) -> int:
    """Return the side of the matrices: the usual one, or the next smaller power that fits.

    >>> gemm_size(80 * 10**9), gemm_size(10**9)
    (8192, 4096)
    """
    size = GEMM_SIZE
    while size > 256 and 2 * 3 * 4 * size**2 > free_bytes:  # three fp32 matrices in half of it
        size //= 2
    return size


def gemm_flop_per_s(
    dtype: str,
    device: str,
    *,
    size: int,
    best_s: Callable[[Callable[[], object]], float] | None = None,
) -> float:
    """Return the rate of square products; TF32 is fp32 with it allowed, as the setting is after.

    Args:
        dtype: One of `DTYPES`, or `tf32`.
        device: Where to compute.
        size: Side of the matrices.
        best_s: Times a call, in seconds; by default with device events.
    """
    matmul = torch.backends.cuda.matmul
    before = matmul.allow_tf32
    matmul.allow_tf32 = dtype == "tf32"
    try:
        kind = DTYPES["fp32" if dtype == "tf32" else dtype]
        left, right = (torch.randn(size, size, device=device).to(kind) for _ in range(2))
        return 2 * size**3 / (best_s or _best_s)(lambda: torch.mm(left, right))
    finally:
        matmul.allow_tf32 = before


def copy_bytes_per_s(
    device: str, size: int, *, best_s: Callable[[Callable[[], object]], float] | None = None
) -> float:
    """Return the rate of a copy within a device; each byte is read once and written once."""
    source = torch.empty(size, device=device, dtype=torch.uint8)
    target = torch.empty_like(source)
    return 2 * size / (best_s or _best_s)(lambda: target.copy_(source))


def _activities() -> list[str]:
    activities = supported_activities()  # type: ignore[no-untyped-call]
    return sorted(activity.name for activity in activities)


def _device(index: int) -> dict[str, Any]:
    found = torch.cuda.get_device_properties(index)
    return {
        "name": found.name,
        "total_bytes": found.total_memory,
        "units": found.multi_processor_count,
    }


def _best_s(work: Callable[[], object]) -> float:
    """Return the shortest of several runs, after one that loads and chooses kernels."""
    work()
    best = float("inf")
    for _ in range(REPEATS):
        start = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        end = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        start.record()
        work()
        end.record()
        end.synchronize()
        best = min(best, start.elapsed_time(end) / 1000)
    return best


def main() -> None:
    """Print what there is, and with `--measure` the peaks of each GPU, as one JSON document."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--measure", action="store_true")
    args = parser.parse_args()
    found = describe()
    if args.measure:
        found["measured"] = [measure(index) for index in range(len(found["devices"]))]
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main()
