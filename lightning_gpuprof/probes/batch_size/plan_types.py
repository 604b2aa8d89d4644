"""What a planned step took, as plain data: passed between processes as JSON; loads no torch."""

import msgspec

KINDS = (
    "parameters",
    "buffers",
    "gradients",
    "optimizer_state",
    "inputs",
    "activations",
    "workspace",
    "other",
)
"""`activations`: made in forward and still there when backward begins; `workspace`: the share of
libraries, see `PlanPoint.assumptions`; `other`: what a step makes and drops on its way."""

CUBLAS_WORKSPACE_BYTES = (2 * 4096 + 8 * 16) * 1024
"""torch's default `CUBLAS_WORKSPACE_CONFIG=:4096:2:16:8` (notes/cuda.html, cuBLAS workspaces)."""
_LARGE_WORKSPACE_BYTES = 8 * 4096 * 1024
_LARGE_FROM = 9.0

PRECISIONS = ("32-true", "bf16-mixed", "16-mixed", "bf16-true", "16-true")
OPTIMIZERS = ("model", "sgd", "momentum", "adam", "adamw")


def cublas_workspace_bytes(compute_capability: float | None) -> int:
    """Return what torch gives each cuBLAS handle on an NVIDIA device by default.

    32 MiB from Hopper (compute capability 9.0) on, `CUBLAS_WORKSPACE_BYTES` before that and
    where the device is not known; `CUBLAS_WORKSPACE_CONFIG` changes it. Source: PyTorch,
    `aten/src/ATen/cuda/CublasHandlePool.cpp`, `parseChosenWorkspaceSize`.

    >>> cublas_workspace_bytes(9.0) // 2**20, cublas_workspace_bytes(8.9) == CUBLAS_WORKSPACE_BYTES
    (32, True)
    """
    large = compute_capability is not None and compute_capability >= _LARGE_FROM
    return _LARGE_WORKSPACE_BYTES if large else CUBLAS_WORKSPACE_BYTES


class PlanRequest(msgspec.Struct, kw_only=True, frozen=True):
    """What to predict."""

    model: str
    """`package.module:function` or `file.py:function`."""
    batch_sizes: tuple[int, ...]
    optimizer: str = "model"
    precision: str = "32-true"
    workspace_bytes: int = CUBLAS_WORKSPACE_BYTES
    """Of each cuBLAS handle, see `cublas_workspace_bytes`."""


class PlanPoint(msgspec.Struct, kw_only=True, frozen=True):
    """The predicted memory of one training step at one batch size, in bytes.

    Sizes are rounded to the allocator's blocks, except `exact_bytes`, which holds the sums as
    asked for: parameters, gradients, optimizer_state and activations.
    """

    batch_size: int
    peak_allocated_bytes: int
    peak_reserved_bytes: int
    least_capacity_bytes: int
    """With less the step runs out of memory; up to `peak_reserved_bytes` it fits after allocation
    retries, in which the allocator gives back what lies free."""
    peak_phase: str
    """forward, zero_grad, backward or optimizer_step."""
    kind_bytes: dict[str, int]
    """At the peak, by kind; adds up to `peak_allocated_bytes`."""
    exact_bytes: dict[str, int]
    optimizer: str
    assumptions: tuple[str, ...] = ()
    """What was assumed or left out, one sentence each."""
