"""Suggests a batch size from the memory peaks of the sizes that were run: pure arithmetic."""

from collections.abc import Sequence
from dataclasses import dataclass, field

MAX_STRETCH = 4
"""A suggestion reaches at most this many times past the largest size run: beyond it too much
else (another kernel, another algorithm) may change for a straight line to hold."""
NOISY_FRAC = 0.1
"""Peaks of one size that differ by more than this say that its samples differ in size."""
_ALIGNMENT = 8


@dataclass(frozen=True)
class Peak:
    """The highest memory of one window of steps."""

    samples: int
    peak_allocated_bytes: int
    peak_reserved_bytes: int


@dataclass(frozen=True)
class Card:
    """What there is to fill, and what is taken already.

    Args:
        total_bytes: The device's memory.
        others_bytes: Held outside torch's allocator: the context, libraries, other processes.
        resting_bytes: Allocated between steps: parameters, gradients, optimizer state.
    """

    total_bytes: int
    others_bytes: int
    resting_bytes: int


@dataclass(frozen=True)
class BatchSizeAdvice:
    """A batch size, or the reason why none is suggested.

    `suggested` is the size in use where that lies in the target band, else the band's middle;
    `low` and `high` are the sizes at the band's ends. All are None where the measurements do not
    bear a suggestion out.
    """

    batch_size: int
    suggested: int | None = None
    low: int | None = None
    high: int | None = None
    reason: str = ""
    constant_bytes: int | None = None
    per_sample_bytes: int | None = None
    notes: tuple[str, ...] = field(default=())


def advise(
    peaks: Sequence[Peak],
    card: Card,
    *,
    band: tuple[float, float] = (0.6, 0.8),
    alloc_retries: int = 0,
) -> BatchSizeAdvice | None:
    """Suggest the batch size whose peak fills a band of the device's memory.

    The peak is a straight line in the batch size. Two or more sizes give the line itself; with
    one size its constant part is what stays allocated between steps, so that all else counts
    as growing with the batch: that errs towards smaller suggestions.

    Args:
        peaks: One per window; empty gives None.
        card: The device.
        band: Shares of the device's memory to aim for.
        alloc_retries: How often the allocator had to free its cache and try again.

    >>> gib = 2**30
    >>> card = Card(total_bytes=24 * gib, others_bytes=gib // 2, resting_bytes=2 * gib)
    >>> advice = advise([Peak(16, 6 * gib, 6 * gib)], card)
    >>> advice.low, advice.suggested, advice.high
    (47, 56, 64)
    """
    if not peaks:
        return None
    largest = max(peak.samples for peak in peaks)
    if alloc_retries:
        return BatchSizeAdvice(
            largest,
            reason="the allocator ran out of memory and had to free its cache: a larger batch "
            "would be slower still",
        )
    highest = _highest(peaks)
    constant, slope = _line(highest, card)
    if slope <= 0 or largest < 1:
        return BatchSizeAdvice(largest, reason="the memory peak does not grow with the batch size")
    # Reserved exceeds allocated by the pool's fragmentation, which grows along.
    spread = max(1.0, max(peak.peak_reserved_bytes / peak.peak_allocated_bytes for peak in peaks))

    def fitting(frac: float) -> int:
        room = (card.total_bytes * frac - card.others_bytes) / spread - constant
        return max(0, int(room / slope))

    low, high = fitting(band[0]), fitting(band[1])
    notes = []
    if high > MAX_STRETCH * largest:
        high = MAX_STRETCH * largest
        low = min(low, high)
        notes.append(f"held at {MAX_STRETCH} times the largest batch that was run")
    if _noisy(peaks):
        low = min(low, largest)
        notes.append("peaks of one batch size differ: samples may vary in length")
    if high < 1:
        return BatchSizeAdvice(
            largest, reason="the model alone fills the band: no batch size fits into it"
        )
    middle = min(fitting(sum(band) / 2), high)
    in_band = low <= largest <= high and not notes
    suggested = largest if in_band else _aligned(middle, low, high)
    return BatchSizeAdvice(
        batch_size=largest,
        suggested=max(1, suggested),
        low=max(1, low),
        high=high,
        constant_bytes=int(constant),
        per_sample_bytes=int(slope),
        notes=tuple(notes),
    )


def accumulation_for(batch_size: int, accumulate: int, suggested: int) -> int:
    """Return the `accumulate_grad_batches` that keeps the effective batch nearest.

    >>> accumulation_for(16, 8, 64), accumulation_for(16, 1, 64)
    (2, 1)
    """
    return max(1, round(batch_size * accumulate / suggested))


def _highest(peaks: Sequence[Peak]) -> dict[int, int]:
    highest: dict[int, int] = {}
    for peak in peaks:
        highest[peak.samples] = max(peak.peak_allocated_bytes, highest.get(peak.samples, 0))
    return highest


def _line(highest: dict[int, int], card: Card) -> tuple[float, float]:
    """Return the constant and the bytes per sample."""
    small, large = min(highest), max(highest)
    if small == large:
        constant = float(min(card.resting_bytes, highest[large]))
        return constant, (highest[large] - constant) / max(1, large)
    slope = (highest[large] - highest[small]) / (large - small)
    return highest[large] - slope * large, slope


def _noisy(peaks: Sequence[Peak]) -> bool:
    by_size: dict[int, list[int]] = {}
    for peak in peaks:
        by_size.setdefault(peak.samples, []).append(peak.peak_allocated_bytes)
    return any(max(seen) > (1 + NOISY_FRAC) * min(seen) for seen in by_size.values())


def _aligned(size: int, low: int, high: int) -> int:
    """Return the multiple of 8 next to a size, if one lies between the bounds."""
    for near in (size // _ALIGNMENT * _ALIGNMENT, -(-size // _ALIGNMENT) * _ALIGNMENT):
        if low <= near <= high and near:
            return near
    return size
