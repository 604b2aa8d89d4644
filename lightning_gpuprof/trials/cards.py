"""Finds the batch size for a card from predicted peaks at some sizes: pure arithmetic."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.memory.line import Line
from lightning_gpuprof.trials.messages import PlanPoint

Measure = Callable[[Sequence[int]], list[PlanPoint]]

TARGET_FRAC = (0.6, 0.8)
"""The band of a card's memory to fill; the rest is room for memory that is not predicted."""
MULTIPLE = 8
"""Tensor cores work on tiles of 8 or more rows; larger sizes are rounded down to this."""
LINEAR_FRAC = 0.02
"""A fit that misses a point by a larger share is called not linear."""
LARGEST_BATCH = 2**20
"""The search ends here; memory does not limit the batch then."""
_TRIES = 8


@dataclass(frozen=True)
class LinearFit(Line):
    """The line through some peaks by least squares."""

    residual_frac: float
    """The largest miss, as a share of the value missed."""

    @property
    def linear(self) -> bool:
        """Whether the line predicts sizes between and beyond the points."""
        return self.residual_frac <= LINEAR_FRAC

    def largest(self, limit_bytes: float) -> int | None:
        """Return the largest batch size on the line within a limit; None where even 1 is over.

        A line that does not rise has no largest size: `LARGEST_BATCH` stands for it.
        """
        if self.at(1) > limit_bytes:
            return None
        if self.per_sample_bytes <= 0:
            return LARGEST_BATCH
        return min(LARGEST_BATCH, int((limit_bytes - self.constant_bytes) / self.per_sample_bytes))


@dataclass(frozen=True)
class Card:
    """A card to plan for."""

    vram_bytes: int
    name: str | None = None
    compute_capability: float | None = None
    """Of an NVIDIA card known by name, see `messages.cublas_workspace_bytes`."""


@dataclass(frozen=True)
class CardPlan:
    """The batch size for one card."""

    card: Card
    batch_size: int | None
    """The largest whose predicted reserved peak stays in the band; None where none does."""
    point: PlanPoint | None
    """The prediction at `batch_size`, run for it and not read off the line."""
    largest: int | None
    """The largest that the whole card would hold, after allocation retries."""

    @property
    def frac(self) -> float | None:
        """Share of the card that `batch_size` is predicted to reserve."""
        return self.point.peak_reserved_bytes / self.card.vram_bytes if self.point else None


@dataclass(frozen=True)
class Plan:
    """Predicted memory by batch size, and the batch size for each card."""

    points: tuple[PlanPoint, ...]
    allocated: LinearFit | None
    """Through the points whose peak is in forward or backward, where there are two."""
    cards: tuple[CardPlan, ...]
    target_frac: tuple[float, float]
    outside_bytes: int
    """Kept free on every card for memory outside torch's allocator."""
    precision: str

    @property
    def assumptions(self) -> tuple[str, ...]:
        """One sentence for each assumption and omission."""
        return tuple(dict.fromkeys(text for point in self.points for text in point.assumptions))


def fit_line(sizes: Sequence[int], peaks: Sequence[int]) -> LinearFit | None:
    """Fit a line through peaks; None with fewer than two distinct batch sizes.

    >>> fit_line([8, 16, 32], [180, 260, 420])
    LinearFit(constant_bytes=100.0, per_sample_bytes=10.0, residual_frac=0.0)
    """
    if len(set(sizes)) < 2:
        return None
    count = len(sizes)
    mean_size, mean_peak = sum(sizes) / count, sum(peaks) / count
    spread = sum((size - mean_size) ** 2 for size in sizes)
    pairs = list(zip(sizes, peaks, strict=True))
    slope = sum((size - mean_size) * (peak - mean_peak) for size, peak in pairs) / spread
    constant = mean_peak - slope * mean_size
    misses = [abs(constant + slope * size - peak) / peak for size, peak in pairs if peak]
    return LinearFit(constant, slope, max(misses, default=0.0))


def make_plan(
    measure: Measure,
    *,
    batch_sizes: Sequence[int],
    cards: Sequence[Card],
    precision: str,
    target_frac: tuple[float, float] = TARGET_FRAC,
    outside_bytes: int = 0,
) -> Plan:
    """Predict at the batch sizes, then find and check the one for each card.

    Args:
        measure: Predicts the step's memory at the given sizes.
        batch_sizes: Sizes to predict first.
        cards: The cards to plan for.
        precision: Of `measure`; for the record.
        target_frac: The band to fill; its upper end is not passed.
        outside_bytes: Kept free for the CUDA context and other processes.

    Raises:
        ConfigError: The band or a size makes no sense.
    """
    low, high = target_frac
    if not 0 < low <= high <= 1:
        raise ConfigError(f"target_frac={target_frac}: give a band within 0 and 1, low first.")
    points = {point.batch_size: point for point in measure(list(batch_sizes))}
    if len(points) == 1:
        only = next(iter(points))
        points[2 * only] = measure([2 * only])[0]
    fitted = [
        _fit_card(measure, points, card, band=target_frac, outside=outside_bytes) for card in cards
    ]
    ordered = tuple(points[size] for size in sorted(points))
    rising = _rising(ordered)
    sizes = [point.batch_size for point in rising]
    return Plan(
        points=ordered,
        allocated=fit_line(sizes, [point.peak_allocated_bytes for point in rising]),
        cards=tuple(fitted),
        target_frac=target_frac,
        outside_bytes=outside_bytes,
        precision=precision,
    )


def _fit_card(
    measure: Measure,
    points: dict[int, PlanPoint],
    card: Card,
    *,
    band: tuple[float, float],
    outside: int,
) -> CardPlan:
    """Go from the line's answer to a size whose own prediction lies in the band, or below it."""
    low, high = band
    limit, least = (share * card.vram_bytes - outside for share in (high, low))
    size = round_down(_line(points, _reserved).largest(limit))
    point: PlanPoint | None = None
    for _ in range(_TRIES):
        if size is None or (point is not None and size <= point.batch_size):
            break
        if size not in points:
            points[size] = measure([size])[0]
        again = _line(points, _reserved).largest(limit)
        if points[size].peak_reserved_bytes > limit:
            # The pool's segments grow in steps: try the nearer points' answer, or a notch less.
            size = round_down(min(size - _notch(size), size if again is None else again))
            continue
        point = points[size]
        if point.peak_reserved_bytes >= least:
            break
        # Below the band: small sizes reserve more than they need, so the line was too steep.
        size = round_down(again)
    whole = _line(points, _least).largest(card.vram_bytes - outside)
    return CardPlan(card, point.batch_size if point else None, point, whole)


def _line(points: dict[int, PlanPoint], value: Callable[[PlanPoint], int]) -> LinearFit:
    # The largest sizes alone: a small model's constant part is lost in rounding.
    rising = _rising([points[size] for size in sorted(points)])[-4:]
    line = fit_line([point.batch_size for point in rising], [value(point) for point in rising])
    assert line is not None
    return line


def _reserved(point: PlanPoint) -> int:
    return point.peak_reserved_bytes


def _least(point: PlanPoint) -> int:
    return point.least_capacity_bytes


def _rising(points: Sequence[PlanPoint]) -> Sequence[PlanPoint]:
    """Leave out small batches whose peak, in the optimizer, hardly grows with the batch."""
    rising = [point for point in points if point.peak_phase != "optimizer_step"]
    return rising if len(rising) >= 2 else points


def _notch(size: int) -> int:
    return max(1, size // 16)


def round_down(size: int | None) -> int | None:
    """Round down to a multiple of `MULTIPLE`, from that on; 0 and less become None.

    >>> round_down(29), round_down(7), round_down(0)
    (24, 7, None)
    """
    if size is None or size < 1:
        return None
    return size if size < MULTIPLE else size // MULTIPLE * MULTIPLE
