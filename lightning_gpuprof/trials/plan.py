"""`plan(...)`: the batch size that fits a card, without running and without a GPU."""

from collections.abc import Callable, Sequence
from typing import Any

from lightning_gpuprof.trials.cards import TARGET_FRAC, Card, Plan, make_plan
from lightning_gpuprof.trials.messages import PlanPoint, cublas_workspace_bytes
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
            a batch as the DataLoader would; or `(model, batch)`; or a LightningModule with
            `example_input_array`.
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

    def measure(sizes: Sequence[int]) -> list[PlanPoint]:
        return predict(
            make,
            sizes,
            optimizer=optimizer,
            precision=precision,
            workspace_bytes=cublas_workspace_bytes(compute_capability),
        )

    cards = [vram_bytes] if isinstance(vram_bytes, int) else vram_bytes
    return make_plan(
        measure,
        batch_sizes=batch_sizes,
        cards=[Card(size) for size in cards],
        precision=precision,
        target_frac=target_frac,
        outside_bytes=outside_bytes,
    )
