"""`plan`: predicts the batch size that fits a GPU, without a GPU."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import linear_regression
from typing import Any, Literal

from lightning_gpuprof.memory.batch_size import PeakLine
from lightning_gpuprof.trials.predict import PlanPoint, cublas_workspace_bytes, predict
from lightning_gpuprof.trials.warned_once import warned_once

Cap = Literal["samples", "search", "tries"]
"""Why a batch size is only a lower bound: the dataset has no more samples, the search goes no
further, or it ended after its last prediction."""
Measure = Callable[[Sequence[int]], list[PlanPoint]]

TARGET_FRAC = 0.8
"""The share of a card to fill. The rest is for memory that is not predicted."""
MULTIPLE = 8
"""Batch sizes are rounded down to a multiple of this, since tensor cores work on tiles of 8
rows."""
LARGEST_BATCH = 2**20
"""The search goes no further than this size: memory does not limit the batch."""
ASSUMPTIONS = (
    "The CUDA context, loaded kernels and NCCL buffers lie outside torch's allocator and are not "
    "counted.",
    "Workspaces of kernels (cuDNN's convolutions and recurrent layers, sorts) are not counted, "
    "except for two workspaces of cuBLAS (8.1 MiB each, or 32 MiB from Hopper on).",
)
FLOAT_READS = (
    "The step reads numbers of float tensors, as by .item(). Since these have no data here, 1.0 "
    "stood in for each.",
)
_MAX_TRIES = 8


@dataclass(frozen=True)
class CardPlan:
    """The batch size for a card with a given memory."""

    vram_bytes: int
    batch_size: int | None
    """The largest batch size whose predicted reserved peak is within the target; None if not even
    a single sample fits."""
    peak_reserved_bytes: int | None
    largest_batch_size: int | None
    """The largest batch size that the whole card can hold, after the allocator has released its
    cache."""
    vram_frac: float | None
    """The share of the card that `batch_size` is predicted to reserve."""
    batch_size_cap: Cap | None = None
    """Why `batch_size` is a lower bound; None if memory limits it."""
    largest_batch_size_cap: Cap | None = None
    """Why `largest_batch_size` is a lower bound; None if memory limits it."""


@dataclass(frozen=True)
class Plan:
    """Predicted memory by batch size, and the batch size for each card."""

    precision: str
    points: tuple[PlanPoint, ...]
    allocated: PeakLine
    """Allocated bytes as a linear function of the batch size."""
    cards: tuple[CardPlan, ...]
    samples: int | None = None
    """The samples of the dataset, beyond which no batch size is looked for; None if unknown."""
    own_batch_size: int | None = None
    """The batch size of the program whose model this is; None without a program."""
    target_frac: float = TARGET_FRAC
    assumptions: tuple[str, ...] = ASSUMPTIONS


def plan(
    make: Callable[[], Any],
    *,
    vram_bytes: int | Sequence[int] = (),
    batch_sizes: Sequence[int] = (8, 16, 32),
    precision: str = "32-true",
    compute_capability: float | None = None,
    samples: int | None = None,
) -> Plan:
    """Predict the memory of a training step, and the batch size that fits each card.

    For every batch size two steps are run on tensors that have shapes but no data. That needs no
    GPU, hardly any memory, and about a second. Meanwhile some of torch's operators are replaced in
    this process, so do not train in another thread.

    Args:
        make: Takes nothing and returns `(model, batch_fn)`, where `batch_fn(batch_size)` returns
            a batch as the DataLoader would. A model without `configure_optimizers` gets AdamW.
        vram_bytes: Memory of the card or cards to plan for.
        batch_sizes: Batch sizes whose memory is predicted.
        precision: The precision as Lightning's Trainer names it.
        compute_capability: The capability of an NVIDIA card. From 9.0 (Hopper) on, cuBLAS has
            larger workspaces.
        samples: The number of samples of the dataset. No larger batch size is looked for.

    Returns:
        The predicted memory of every batch size, and the largest size for every card, in bytes.

    Raises:
        ConfigError: An argument is wrong, or the model's memory cannot be predicted.
    """
    workspace = cublas_workspace_bytes(compute_capability)
    measure = partial(predict, make, precision=precision, workspace_bytes=workspace)
    with warned_once():
        points = {point.batch_size: point for point in measure(batch_sizes)}
        if len(points) == 1:
            # A line through the points needs two of them.
            double = 2 * next(iter(points))
            points[double] = measure([double])[0]
        sizes = [vram_bytes] if isinstance(vram_bytes, int) else vram_bytes
        cards = tuple(fit_card(measure, points, size, samples) for size in sizes)
    reads = any(point.float_reads for point in points.values())
    return Plan(
        precision=precision,
        points=tuple(points[size] for size in sorted(points)),
        allocated=_line(points, "peak_allocated_bytes"),
        cards=cards,
        samples=samples,
        assumptions=(*ASSUMPTIONS, *(FLOAT_READS if reads else ())),
    )


def fit_card(
    measure: Measure, points: dict[int, PlanPoint], vram_bytes: int, samples: int | None = None
) -> CardPlan:
    """Find the largest batch size for a card whose own prediction fits.

    The line through the points proposes a size. The prediction of that size is added to the
    points, which gives a better line, and so on.
    """
    at_most = min(LARGEST_BATCH, samples or LARGEST_BATCH)
    end_of_search: Cap = "search" if at_most == LARGEST_BATCH else "samples"
    limit = TARGET_FRAC * vram_bytes
    best: PlanPoint | None = None
    size = _size_by_line(points, limit, at_most)
    tries = 0
    while size > (best.batch_size if best else 0) and tries < _MAX_TRIES:
        tries += 1
        if size not in points:
            points[size] = measure([size])[0]
        next_size = _size_by_line(points, limit, at_most)
        if points[size].peak_reserved_bytes > limit:
            # Reserved memory grows by whole segments, so the line can propose the same size again:
            # go down by a sixteenth at least.
            size = _round_down(min(size - max(1, size // 16), next_size or size))
        else:
            best, size = points[size], next_size
    largest = _largest(_line(points, "least_capacity_bytes"), vram_bytes, at_most)
    best_size = best.batch_size if best else 0
    cap: Cap | None = None
    if best_size == at_most:
        cap = end_of_search
    elif size > best_size:
        cap = "tries"
    return CardPlan(
        vram_bytes,
        best_size or None,
        best.peak_reserved_bytes if best else None,
        largest or None,
        best.peak_reserved_bytes / vram_bytes if best else None,
        batch_size_cap=cap,
        largest_batch_size_cap=end_of_search if largest == at_most else None,
    )


def _size_by_line(points: dict[int, PlanPoint], limit: float, at_most: int) -> int:
    size = _largest(_line(points, "peak_reserved_bytes"), limit, at_most)
    return size if size == at_most else _round_down(size)


def _line(points: dict[int, PlanPoint], name: str) -> PeakLine:
    """Fit a line through a figure of the points, as a function of the batch size.

    The fit uses the four largest sizes, since rounding hides the constant part of a small model.
    It leaves out points whose peak is in the optimizer, which hardly grows with the batch.
    """
    by_size = [points[size] for size in sorted(points)]
    growing = [point for point in by_size if point.peak_phase != "optimizer_step"]
    fitted = (growing if len(growing) >= 2 else by_size)[-4:]
    sizes = [point.batch_size for point in fitted]
    peaks = [getattr(point, name) for point in fitted]
    slope, constant = linear_regression(sizes, peaks)
    return PeakLine(constant, slope)


def _largest(line: PeakLine, limit_bytes: float, at_most: int) -> int:
    """Return the largest batch size for which a line is within a limit; 0 if there is none."""
    if line.at(1) > limit_bytes:
        return 0
    if line.per_sample_bytes <= 0:
        return at_most
    return min(at_most, int((limit_bytes - line.constant_bytes) / line.per_sample_bytes))


def _round_down(size: int) -> int:
    return size if size < MULTIPLE else size // MULTIPLE * MULTIPLE
