"""The same block compiled into one pass: as many FLOPs, a third of the bytes."""

import os
import shutil

import torch
from block import block, tensors, whole
from roofs import measure, table

from lightning_gpuprof import ab_test


def check_compiler() -> None:
    """On a CPU torch.compile generates C++; what starts its kernels on a GPU is C."""
    gpu = torch.cuda.is_available()
    asked, names = ("CC", ("gcc", "clang")) if gpu else ("CXX", ("g++", "clang++"))
    if not any(map(shutil.which, (os.environ.get(asked, names[0]), names[1]))):
        raise SystemExit(f"This part needs a compiler: {' or '.join(names)}.")


if __name__ == "__main__":
    check_compiler()
    fused = torch.compile(block)
    with torch.no_grad():
        table([whole(block, "block"), whole(fused, "block, fused")], measure())
        result = ab_test(block, fused, tensors(), warmup=2, iterations=15)
    print(result)
    print(f"{result.baseline.median_ms:.2f} ms to {result.optimized.median_ms:.2f} ms")
