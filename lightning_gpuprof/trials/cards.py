"""Finds the batch size for a card from predicted peaks at some sizes: pure arithmetic."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import linear_regression

from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.memory.advise import Line
from lightning_gpuprof.trials.messages import Card, PlanPoint

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
    allocated: LinearFit
    cards: tuple[CardPlan, ...]
    target_frac: tuple[float, float]
    outside_bytes: int
    """Kept free on every card for memory outside torch's allocator."""
    precision: str

    @property
    def assumptions(self) -> tuple[str, ...]:
        """One sentence for each assumption and omission."""
        return tuple(dict.fromkeys(text for point in self.points for text in point.assumptions))


def fit_line(sizes: Sequence[int], peaks: Sequence[int]) -> LinearFit:
    """Fit a line through the peaks of two batch sizes or more.

    >>> line = fit_line([8, 16, 32], [180, 260, 420])
    >>> round(line.constant_bytes), round(line.per_sample_bytes), line.linear
    (100, 10, True)
    """
    slope, constant = linear_regression(sizes, peaks)
    pairs = zip(sizes, peaks, strict=True)
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
    fitted = tuple(_fit_card(measure, points, card, target_frac, outside_bytes) for card in cards)
    return Plan(
        points=tuple(points[size] for size in sorted(points)),
        allocated=_line(points, lambda point: point.peak_allocated_bytes),
        cards=fitted,
        target_frac=target_frac,
        outside_bytes=outside_bytes,
        precision=precision,
    )


def _fit_card(
    measure: Measure,
    points: dict[int, PlanPoint],
    card: Card,
    band: tuple[float, float],
    outside: int,
) -> CardPlan:
    """Go from the line's answer to a size whose own prediction lies in the band, or below it."""
    least, limit = (share * card.vram_bytes - outside for share in band)
    size = _by_line(points, limit)
    point: PlanPoint | None = None
    for _ in range(_TRIES):
        if size is None or (point is not None and size <= point.batch_size):
            break
        if size not in points:
            points[size] = measure([size])[0]
        again = _by_line(points, limit)
        if points[size].peak_reserved_bytes > limit:
            # The pool's segments grow in steps: try the nearer points' answer, or a notch less.
            size = round_down(min(size - max(1, size // 16), again or size))
            continue
        point = points[size]
        if point.peak_reserved_bytes >= least:
            break
        # Below the band: small sizes reserve more than they need, so the line was too steep.
        size = again
    whole = _line(points, lambda point: point.least_capacity_bytes)
    return CardPlan(
        card,
        point.batch_size if point else None,
        point,
        whole.largest(card.vram_bytes - outside),
    )


def _by_line(points: dict[int, PlanPoint], limit: float) -> int | None:
    return round_down(_line(points, lambda point: point.peak_reserved_bytes).largest(limit))


def _line(points: dict[int, PlanPoint], value: Callable[[PlanPoint], int]) -> LinearFit:
    """Fit the four largest sizes: a small model's constant part is lost in rounding.

    Small batches whose peak, in the optimizer, hardly grows with the batch are left out.
    """
    ordered = [points[size] for size in sorted(points)]
    rising = [point for point in ordered if point.peak_phase != "optimizer_step"]
    used = (rising if len(rising) >= 2 else ordered)[-4:]
    return fit_line([point.batch_size for point in used], [value(point) for point in used])


def round_down(size: int | None) -> int | None:
    """Round down to a multiple of `MULTIPLE`, from that on; 0 and less become None.

    >>> round_down(29), round_down(7), round_down(0)
    (24, 7, None)
    """
    if size is None or size < 1:
        return None
    return size if size < MULTIPLE else size // MULTIPLE * MULTIPLE
