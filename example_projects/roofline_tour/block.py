"""A gated block, operation by operation: what stands between two matrix products."""

import torch
from roofs import BYTES, COLUMNS, DEVICE, ROWS, Operation
from torch import Tensor

FLOPS = {"scale": 1, "shift": 1, "gate": 10, "multiply": 1, "add": 1}
"""Per element; a sigmoid is counted as ten, though no two libraries spend the same."""


def tensors() -> list[Tensor]:
    """Return an input, a scale, a shift, a gate and a residual."""
    torch.manual_seed(0)
    wide = [torch.randn(ROWS, COLUMNS, device=DEVICE) for _ in range(3)]
    narrow = [torch.randn(COLUMNS, device=DEVICE) for _ in range(2)]
    return [wide[0], *narrow, *wide[1:]]


def block(x: Tensor, scale: Tensor, shift: Tensor, gate: Tensor, residual: Tensor) -> Tensor:
    """Five passes over memory when each operation runs on its own."""
    return (x * scale + shift) * torch.sigmoid(gate) + residual


def operations() -> list[Operation]:
    """Return the block's operations one by one, each into memory that is there already."""
    x, scale, shift, gate, residual = tensors()
    out = torch.empty_like(x)
    one, size = x.numel(), x.numel() * BYTES
    gate_flops = FLOPS["gate"] * one
    return [
        Operation("scale", lambda: torch.mul(x, scale, out=out), one, 2 * size),
        Operation("shift", lambda: torch.add(x, shift, out=out), one, 2 * size),
        Operation("gate (sigmoid)", lambda: torch.sigmoid(gate, out=out), gate_flops, 2 * size),
        Operation("multiply", lambda: torch.mul(x, gate, out=out), one, 3 * size),
        Operation("add residual", lambda: torch.add(x, residual, out=out), one, 3 * size),
    ]


def whole(call: object, name: str) -> Operation:
    """Return the whole block as one operation: three inputs read once, one output written once."""
    inputs = tensors()
    one = inputs[0].numel()
    return Operation(name, lambda: call(*inputs), sum(FLOPS.values()) * one, 4 * one * BYTES)
