"""`plan(...)`: the batch size that fits a card, without running and without a GPU."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from lightning_gpuprof.trials.cards import TARGET_FRAC, Plan, make_plan
from lightning_gpuprof.trials.messages import Card, PlanRequest, cublas_workspace_bytes
from lightning_gpuprof.trials.predict import predict


def plan(
    make: Callable[[], Any],
    *,
    vram_bytes: int | Sequence[int] = (),
    batch_sizes: Sequence[int] = (8, 16, 32),
    optimizer: str = "model",
    precision: str = "32-true",
    target_frac: tuple[float, float] = TARGET_FRAC,
    outside_bytes: int = 0,
    compute_capability: float | None = None,
) -> Plan:
    """Predict a training step's memory, and the batch size for each card.

    Runs two steps for each size on tensors that have shapes and no data: no GPU, hardly any
    memory, about a second a size. While it runs, some of torch's operators are replaced in this
    process: do not train in another thread meanwhile.

    Args:
        make: Takes nothing and returns `(model, batch_fn)`, where `batch_fn(batch_size)` gives
            a batch as the DataLoader would.
        vram_bytes: Memory of the card or cards to plan for.
        batch_sizes: Sizes to predict.
        optimizer: `model` (its `configure_optimizers`), `sgd`, `momentum`, `adam` or `adamw`.
        precision: As Lightning's Trainer names it.
        target_frac: Band of a card's memory to fill.
        outside_bytes: Kept free for the CUDA context and other processes.
        compute_capability: Of an NVIDIA card; from 9.0 (Hopper) on cuBLAS has larger workspaces.
            None for an older or unknown card.

    Returns:
        The predicted memory of each size and the largest size for each card, in bytes.

    Raises:
        ConfigError: An argument or the model cannot be planned with.
    """
    sizes = [vram_bytes] if isinstance(vram_bytes, int) else vram_bytes
    request = PlanRequest(
        batch_sizes=tuple(batch_sizes),
        cards=tuple(Card(size) for size in sizes),
        optimizer=optimizer,
        precision=precision,
        target_frac=target_frac,
        outside_bytes=outside_bytes,
        workspace_bytes=cublas_workspace_bytes(compute_capability),
    )
    return plan_as_asked(make, request)


def plan_as_asked(make: Callable[[], Any], request: PlanRequest) -> Plan:
    """Plan as a request says."""
    measure = partial(
        predict,
        make,
        optimizer=request.optimizer,
        precision=request.precision,
        workspace_bytes=request.workspace_bytes,
    )
    return make_plan(
        measure,
        batch_sizes=request.batch_sizes,
        cards=request.cards,
        precision=request.precision,
        target_frac=request.target_frac,
        outside_bytes=request.outside_bytes,
    )
