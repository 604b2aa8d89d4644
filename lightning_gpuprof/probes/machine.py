"""What this machine has, asked of torch: `python -m lightning_gpuprof.probes.machine` prints JSON.

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
    """Measure products and copies on one GPU: the best of several, by device events.

    TF32 is measured as fp32 products with it allowed.
    """
    before = torch.backends.cuda.matmul.allow_tf32
    rates = {}
    with torch.cuda.device(index):
        try:
            torch.backends.cuda.matmul.allow_tf32 = False
            for name, dtype in DTYPES.items():
                rates[name] = _gemm_flop_per_s(dtype)
            if torch.version.hip is None and torch.cuda.get_device_capability(index)[0] >= 8:
                torch.backends.cuda.matmul.allow_tf32 = True
                rates["tf32"] = _gemm_flop_per_s(torch.float32)
        finally:
            torch.backends.cuda.matmul.allow_tf32 = before
        return {
            "name": torch.cuda.get_device_properties(index).name,
            "flop_per_s": rates,
            "memory_bytes_per_s": _copy_bytes_per_s(),
        }


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


def _gemm_flop_per_s(dtype: torch.dtype) -> float:
    left = torch.randn(GEMM_SIZE, GEMM_SIZE, device="cuda", dtype=dtype)
    right = torch.randn(GEMM_SIZE, GEMM_SIZE, device="cuda", dtype=dtype)
    return 2 * GEMM_SIZE**3 / _best_s(lambda: torch.mm(left, right))


def _copy_bytes_per_s() -> float:
    source = torch.empty(COPY_BYTES, device="cuda", dtype=torch.uint8)
    target = torch.empty_like(source)
    # Each byte is read once and written once.
    return 2 * COPY_BYTES / _best_s(lambda: target.copy_(source))


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
