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

PRECISIONS = ("32-true", "bf16-mixed", "16-mixed", "bf16-true", "16-true")
OPTIMIZERS = ("model", "sgd", "momentum", "adam", "adamw")


class PlanRequest(msgspec.Struct, kw_only=True, frozen=True):
    """What to predict."""

    model: str
    """`package.module:function` or `file.py:function`."""
    batch_sizes: tuple[int, ...]
    optimizer: str = "model"
    precision: str = "32-true"


class PlanPoint(msgspec.Struct, kw_only=True, frozen=True):
    """The predicted memory of one training step at one batch size, in bytes.

    Sizes are rounded to the allocator's blocks, except `exact_bytes`, which holds the sums as
    asked for: parameters, gradients, optimizer_state and activations.
    """

    batch_size: int
    peak_allocated_bytes: int
    peak_reserved_bytes: int
    peak_phase: str
    """forward, zero_grad, backward or optimizer_step."""
    kind_bytes: dict[str, int]
    """At the peak, by kind; adds up to `peak_allocated_bytes`."""
    exact_bytes: dict[str, int]
    optimizer: str
    assumptions: tuple[str, ...] = ()
    """What was assumed or left out, one sentence each."""
