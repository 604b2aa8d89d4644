"""Requests to the child process of a trial, and its replies, as JSON; loads no torch."""

import msgspec

KINDS = (
    "parameters", "buffers", "gradients", "optimizer_state", "inputs", "activations", "workspace",
    "other",
)  # fmt: skip
"""`activations` are made in forward and live until backward begins; `workspace` belongs to cuBLAS;
`other` is made and dropped within a step."""

PRECISIONS = ("32-true", "bf16-mixed", "16-mixed", "bf16-true", "16-true")
OPTIMIZERS = ("model", "sgd", "momentum", "adam", "adamw")

CUBLAS_WORKSPACE_BYTES = (2 * 4096 + 8 * 16) * 1024
"""torch's default `CUBLAS_WORKSPACE_CONFIG=:4096:2:16:8` (notes/cuda.html, cuBLAS workspaces)."""
_HOPPER_WORKSPACE_BYTES = 8 * 4096 * 1024
_HOPPER = 9.0


def cublas_workspace_bytes(compute_capability: float | None) -> int:
    """Return what torch gives each cuBLAS handle by default: 32 MiB from Hopper on, else 8.1 MiB.

    Source: PyTorch, `aten/src/ATen/cuda/CublasHandlePool.cpp`, `parseChosenWorkspaceSize`.

    >>> cublas_workspace_bytes(9.0) // 2**20, cublas_workspace_bytes(8.9) == CUBLAS_WORKSPACE_BYTES
    (32, True)
    """
    hopper = compute_capability is not None and compute_capability >= _HOPPER
    return _HOPPER_WORKSPACE_BYTES if hopper else CUBLAS_WORKSPACE_BYTES


class Card(msgspec.Struct, frozen=True):
    """A card to plan for."""

    vram_bytes: int
    name: str | None = None
    compute_capability: float | None = None
    """Of an NVIDIA card, where it is known."""


class PlanRequest(msgspec.Struct, kw_only=True, frozen=True, tag="plan"):
    """Predict the memory of a step at some batch sizes, and the size for each card."""

    model: str = ""
    """`package.module:function` or `file.py:function`."""
    batch_sizes: tuple[int, ...]
    cards: tuple[Card, ...]
    optimizer: str
    precision: str
    target_frac: tuple[float, float]
    outside_bytes: int
    workspace_bytes: int = CUBLAS_WORKSPACE_BYTES
    """Of each cuBLAS handle."""


class PlanPoint(msgspec.Struct, kw_only=True, frozen=True):
    """The predicted memory of one training step at one batch size, in bytes.

    Sizes are rounded to the allocator's blocks, except `exact_bytes`: the requested sizes of
    parameters, gradients, optimizer_state and activations.
    """

    batch_size: int
    peak_allocated_bytes: int
    peak_reserved_bytes: int
    least_capacity_bytes: int
    """With less memory the step fails; from here to `peak_reserved_bytes` it fits, after retries
    in which the allocator gives back its free segments."""
    peak_phase: str
    """forward, zero_grad, backward or optimizer_step."""
    kind_bytes: dict[str, int]
    """At the peak, by kind; adds up to `peak_allocated_bytes`."""
    exact_bytes: dict[str, int]
    optimizer: str
    assumptions: tuple[str, ...] = ()


class TuneRequest(msgspec.Struct, kw_only=True, frozen=True, tag="tune"):
    """Train for some steps at one batch size."""

    model: str
    """`package.module:function` or `file.py:function`."""
    batch_size: int
    steps: int
    warmup: int
    optimizer: str = "model"
    precision: str = "32-true"
    device: str = "auto"
    """auto, cpu or cuda."""


class TunePoint(msgspec.Struct, kw_only=True, frozen=True):
    """Time and memory of training at one batch size; memory is None on a CPU.

    Either `step_ns` is given, or `error` says why the size did not run.
    """

    batch_size: int
    device: str | None = None
    step_ns: int | None = None
    """The median of the measured steps."""
    peak_allocated_bytes: int | None = None
    peak_reserved_bytes: int | None = None
    resting_bytes: int | None = None
    """Allocated between steps."""
    others_bytes: int | None = None
    """Used on the device outside torch's allocator."""
    total_bytes: int | None = None
    out_of_memory: bool = False
    error: str | None = None


class Answer(msgspec.Struct, omit_defaults=True):
    """A child's output: a result, or an error that says what to do."""

    result: msgspec.Raw = msgspec.Raw()
    error: str | None = None
