"""`plan(...)`: the batch size that fits a card, without running and without a GPU."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import linear_regression
from typing import Any

from lightning_gpuprof.memory.advise import Line
from lightning_gpuprof.trials.predict import PlanPoint, cublas_workspace_bytes, predict

Measure = Callable[[Sequence[int]], list[PlanPoint]]

TARGET_FRAC = 0.8
"""Share of a card to fill; the rest is room for memory that is not predicted."""
MULTIPLE = 8
"""Tensor cores work on tiles of 8 or more rows; larger sizes are rounded down to this."""
LARGEST_BATCH = 2**20
"""The search ends here; memory does not limit the batch then."""
ASSUMPTIONS = (
    "The CUDA context, loaded kernels and NCCL buffers lie outside torch's allocator and are not "
    "counted.",
    "Kernels' own workspaces (cuDNN's convolutions and recurrent layers, sorts) are not counted; "
    "two of cuBLAS are (8.1 MiB each, from Hopper on 32 MiB).",
)
_TRIES = 8


@dataclass(frozen=True)
class CardPlan:
    """The batch size for a card of so much memory; None where not even one sample fits.

    `batch_size` is the largest whose predicted reserved peak stays within the target,
    `largest_batch_size` the most that the whole card would hold, after allocation retries.
    """

    vram_bytes: int
    batch_size: int | None
    peak_reserved_bytes: int | None
    largest_batch_size: int | None
    vram_frac: float | None
    """Share of the card that `batch_size` is predicted to reserve."""


@dataclass(frozen=True)
class Plan:
    """Predicted memory by batch size, and the batch size for each card."""

    precision: str
    points: tuple[PlanPoint, ...]
    allocated: Line
    """Allocated bytes as a line in the batch size."""
    cards: tuple[CardPlan, ...]
    target_frac: float = TARGET_FRAC
    assumptions: tuple[str, ...] = ASSUMPTIONS


def plan(
    make: Callable[[], Any],
    *,
    vram_bytes: int | Sequence[int] = (),
    batch_sizes: Sequence[int] = (8, 16, 32),
    precision: str = "32-true",
    compute_capability: float | None = None,
) -> Plan:
    """Predict a training step's memory, and the batch size for each card.

    Runs two steps for each size on tensors that have shapes and no data: no GPU, hardly any
    memory, about a second a size. While it runs, some of torch's operators are replaced in this
    process: do not train in another thread meanwhile.

    Args:
        make: Takes nothing and returns `(model, batch_fn)`, where `batch_fn(batch_size)` gives
            a batch as the DataLoader would. Without `configure_optimizers` AdamW is taken.
        vram_bytes: Memory of the card or cards to plan for.
        batch_sizes: Sizes to predict.
        precision: As Lightning's Trainer names it.
        compute_capability: Of an NVIDIA card; from 9.0 (Hopper) on cuBLAS has larger workspaces.

    Returns:
        The predicted memory of each size and the largest size for each card, in bytes.

    Raises:
        ConfigError: An argument or the model cannot be planned with.
    """
    workspace = cublas_workspace_bytes(compute_capability)
    measure = partial(predict, make, precision=precision, workspace_bytes=workspace)
    points = {point.batch_size: point for point in measure(batch_sizes)}
    if len(points) == 1:
        only = next(iter(points))
        points[2 * only] = measure([2 * only])[0]
    sizes = [vram_bytes] if isinstance(vram_bytes, int) else vram_bytes
    cards = tuple(fit_card(measure, points, size) for size in sizes)
    return Plan(
        precision=precision,
        points=tuple(points[size] for size in sorted(points)),
        allocated=_line(points, "peak_allocated_bytes"),
        cards=cards,
    )


def fit_card(measure: Measure, points: dict[int, PlanPoint], vram_bytes: int) -> CardPlan:
    """Go from the line's answer to a size whose own prediction fits; adds it to the points."""
    limit = TARGET_FRAC * vram_bytes
    best: PlanPoint | None = None
    size = _by_line(points, limit)
    for _ in range(_TRIES):
        if size <= (best.batch_size if best else 0):
            break
        if size not in points:
            points[size] = measure([size])[0]
        again = _by_line(points, limit)
        if points[size].peak_reserved_bytes > limit:
            # The pool's segments grow in steps: try the nearer points' answer, or a notch less.
            size = _round_down(min(size - max(1, size // 16), again or size))
        else:
            best, size = points[size], again
    largest = _largest(_line(points, "least_capacity_bytes"), vram_bytes) or None
    if best is None:
        return CardPlan(vram_bytes, None, None, largest, None)
    peak = best.peak_reserved_bytes
    return CardPlan(vram_bytes, best.batch_size, peak, largest, peak / vram_bytes)


def _by_line(points: dict[int, PlanPoint], limit: float) -> int:
    return _round_down(_largest(_line(points, "peak_reserved_bytes"), limit))


def _line(points: dict[int, PlanPoint], name: str) -> Line:
    """Fit the four largest sizes: a small model's constant part is lost in rounding.

    Small batches whose peak, in the optimizer, hardly grows with the batch are left out.
    """
    ordered = [points[size] for size in sorted(points)]
    rising = [point for point in ordered if point.peak_phase != "optimizer_step"]
    used = (rising if len(rising) >= 2 else ordered)[-4:]
    sizes, peaks = [one.batch_size for one in used], [getattr(one, name) for one in used]
    slope, constant = linear_regression(sizes, peaks)
    return Line(constant, slope)


def _largest(line: Line, limit_bytes: float) -> int:
    """Return the largest batch size on a line within a limit; 0 where even 1 is over."""
    if line.at(1) > limit_bytes:
        return 0
    if line.per_sample_bytes <= 0:
        return LARGEST_BATCH
    return min(LARGEST_BATCH, int((limit_bytes - line.constant_bytes) / line.per_sample_bytes))


def _round_down(size: int) -> int:
    return size if size < MULTIPLE else size // MULTIPLE * MULTIPLE
