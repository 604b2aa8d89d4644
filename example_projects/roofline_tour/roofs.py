"""The two roofs of this machine, measured, and where an operation lies under them."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from lightning_gpuprof import arithmetic_intensity, benchmark_latency

BYTES = 4  # float32
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
ROWS, COLUMNS = (65_536, 1_024) if DEVICE.type == "cuda" else (12_288, 1_024)
SIDE = 8_192 if DEVICE.type == "cuda" else 1_024


@dataclass(frozen=True)
class Operation:
    """A function with the work it does at least: each input read and each output written once."""

    name: str
    call: Callable[[], Tensor]
    flop_count: int
    num_bytes: int

    @property
    def intensity(self) -> float:
        """FLOPs per byte."""
        return self.flop_count / self.num_bytes


@dataclass(frozen=True)
class Roofs:
    """What this machine reaches: `flop_per_s` in a matrix product, `bytes_per_s` in a copy."""

    flop_per_s: float
    bytes_per_s: float

    @property
    def ridge(self) -> float:
        """FLOPs per byte from which on computing is what limits."""
        return self.flop_per_s / self.bytes_per_s


def seconds(call: Callable[[], Tensor], *, best: bool = False) -> float:
    """Return the median time of a call, or its shortest for a roof."""
    latency = benchmark_latency(call, warmup=2, iterations=11)
    return (latency.min_ms if best else latency.median_ms) / 1e3


def matrix_product() -> Operation:
    a, b = torch.randn(SIDE, SIDE, device=DEVICE), torch.randn(SIDE, SIDE, device=DEVICE)
    least = arithmetic_intensity("mm", a.shape, b.shape)
    return Operation("matrix product", lambda: a @ b, least.flop_count, least.num_bytes)


def measure() -> Roofs:
    product = matrix_product()
    source = torch.randn(ROWS, COLUMNS, device=DEVICE)
    target = torch.empty_like(source)
    copy_s = seconds(lambda: target.copy_(source), best=True)
    copied = 2 * source.numel() * BYTES
    return Roofs(product.flop_count / seconds(product.call, best=True), copied / copy_s)


def table(operations: list[Operation], roofs: Roofs) -> float:
    """Print where each operation lies; return the time of all in seconds."""
    print(
        f"roofs: {roofs.flop_per_s / 1e9:.0f} GFLOP/s, {roofs.bytes_per_s / 1e9:.1f} GB/s; "
        f"ridge at {roofs.ridge:.1f} FLOP per byte"
    )
    print("operation             ms   FLOP/byte  GFLOP/s     GB/s   limit    of its roof")
    total = 0.0
    for one in operations:
        took = seconds(one.call)
        total += took
        flops, moved = one.flop_count / took, one.num_bytes / took
        is_memory = one.intensity < roofs.ridge
        share = moved / roofs.bytes_per_s if is_memory else flops / roofs.flop_per_s
        print(
            f"{one.name:16} {took * 1e3:7.2f}  {one.intensity:10.2f}  {flops / 1e9:7.1f}  "
            f"{moved / 1e9:7.2f}   {'memory ' if is_memory else 'compute'}  {share:10.0%}"
        )
    return total
