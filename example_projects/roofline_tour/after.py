"""The same block compiled into one pass: as many FLOPs, a third of the bytes."""

import os
import shutil

import torch
from block import block, tensors, whole
from roofs import measure, table

from lightning_gpuprof import ab_test


def check_compiler() -> None:
    """On a CPU torch.compile generates C++."""
    found = shutil.which(os.environ.get("CXX", "g++")) or shutil.which("clang++")
    if not torch.cuda.is_available() and not found:
        raise SystemExit("This part needs a C++ compiler (g++ or clang++), or a GPU.")


if __name__ == "__main__":
    check_compiler()
    fused = torch.compile(block)
    with torch.no_grad():
        table([whole(block, "block"), whole(fused, "block, fused")], measure())
        result = ab_test(block, fused, tensors(), warmup=2, iterations=15)
    print(result)
    print(f"{result.baseline.median_ms:.1f} ms to {result.optimized.median_ms:.1f} ms")
