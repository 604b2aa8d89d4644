"""Describes this machine by asking torch; run as a module, it prints JSON.

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
DTYPES = {"fp32": torch.float32, "tf32": torch.float32, "fp16": torch.float16,
          "bf16": torch.bfloat16}  # fmt: skip

Timer = Callable[[Callable[[], object]], float]
"""Returns the seconds that a call takes."""


def describe() -> dict[str, Any]:
    """Return torch's build, its devices and what its profiler can record."""
    activities = supported_activities()  # type: ignore[no-untyped-call]
    devices = range(torch.cuda.device_count() if torch.cuda.is_available() else 0)
    return {
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "hip": torch.version.hip,
        "activities": sorted(activity.name for activity in activities),
        "devices": [_device(torch.cuda.get_device_properties(index)) for index in devices],
    }


def measure(index: int = 0) -> dict[str, Any]:
    """Measure products and copies on one GPU: the best of several, by device events."""
    with torch.cuda.device(index):
        free_bytes, _ = torch.cuda.mem_get_info(index)
        dtypes = ["fp32", "fp16", *(["bf16"] if torch.cuda.is_bf16_supported() else [])]
        if torch.version.hip is None and torch.cuda.get_device_capability(index)[0] >= 8:
            dtypes.append("tf32")
        size = gemm_size(free_bytes)
        return {
            "name": torch.cuda.get_device_properties(index).name,
            "flop_per_s": {name: gemm_flop_per_s(name, "cuda", size=size) for name in dtypes},
            "memory_bytes_per_s": copy_bytes_per_s("cuda", min(COPY_BYTES, free_bytes // 4)),
        }


def gemm_size(free_bytes: int) -> int:
    """Return the side of the matrices: the usual one, or the next smaller power that fits.

    >>> gemm_size(80 * 10**9), gemm_size(600 * 10**6), gemm_size(0)
    (8192, 4096, 256)
    """
    size = GEMM_SIZE
    while size > 256 and 2 * 3 * 4 * size**2 > free_bytes:  # three fp32 matrices in half of it
        size //= 2
    return size


def _best_s(work: Callable[[], object]) -> float:
    """Return the shortest of several runs, after one that loads and chooses kernels."""
    work()
    best = float("inf")
    for _ in range(REPEATS):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        start.record()
        work()
        end.record()
        end.synchronize()
        best = min(best, start.elapsed_time(end) / 1000)
    return best


def gemm_flop_per_s(dtype: str, device: str, *, size: int, best_s: Timer = _best_s) -> float:
    """Return the rate of square products; TF32 is fp32 with it allowed, as the setting is after."""
    matmul = torch.backends.cuda.matmul
    before = matmul.allow_tf32
    matmul.allow_tf32 = dtype == "tf32"
    try:
        left, right = (torch.randn(size, size, device=device).to(DTYPES[dtype]) for _ in range(2))
        return 2 * size**3 / best_s(lambda: torch.mm(left, right))
    finally:
        matmul.allow_tf32 = before


def copy_bytes_per_s(device: str, size: int, *, best_s: Timer = _best_s) -> float:
    """Return the rate of a copy within a device; each byte is read once and written once."""
    source = torch.empty(size, device=device, dtype=torch.uint8)
    target = torch.empty_like(source)
    return 2 * size / best_s(lambda: target.copy_(source))


def _device(found: Any) -> dict[str, Any]:
    return {
        "name": found.name,
        "total_bytes": found.total_memory,
        "units": found.multi_processor_count,
    }


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
