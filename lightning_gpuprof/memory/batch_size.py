"""Suggests a batch size from the memory peaks at the batch sizes that were run: pure arithmetic."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lightning_gpuprof.units import size

MAX_STRETCH = 4
"""A suggestion is at most this many times the largest batch size that was run. Far from what was
run a straight line does not hold, since other kernels and algorithms may be chosen."""
MAX_FRAGMENTATION = 2.0
"""Reserved over allocated memory at the peak, above which nothing is suggested: more of the pool is
idle than in use."""
IDLE_BYTES = 64 * 2**20
"""This much of the pool may be idle without any fragmentation, since it takes segments of up to 20
MiB both for small and for large blocks."""
CONTEXT_BYTES = 2 * 2**30
"""A CUDA context with NCCL and libraries takes less than this. If more is in use outside torch,
other processes use it."""
SEGMENT_BYTES = 20 * 2**20
"""The size of the pool's segments for smaller blocks."""
MIN_SEGMENTS = 20
"""The largest batch is predicted only for devices with room for this many segments. On a smaller
device a segment is over 5 % of the memory, which is too coarse."""
_ALIGNMENT = 8


@dataclass(frozen=True)
class Peak:
    """The highest memory during training at a batch size."""

    samples: int
    peak_allocated_bytes: int
    peak_reserved_bytes: int
    split_bytes: int = 0
    """Free memory at the end of forward in segments that are partly in use, so that the pool cannot
    release it."""

    @property
    def fragmentation(self) -> float:
        """Reserved over allocated memory; 1.0 if no more is idle than in any pool."""
        idle = self.peak_reserved_bytes - self.peak_allocated_bytes
        return self.peak_reserved_bytes / self.peak_allocated_bytes if idle > IDLE_BYTES else 1.0


@dataclass(frozen=True)
class PeakLine:
    """A memory peak as a linear function of the batch size."""

    constant_bytes: float
    per_sample_bytes: float

    def at(self, samples: int) -> float:
        """Return the peak for a batch size, in bytes."""
        return self.constant_bytes + self.per_sample_bytes * samples


@dataclass(frozen=True)
class DeviceRoom:
    """The memory of a device, how much of it is in use, and what else bears on a suggestion."""

    total_bytes: int
    others_bytes: int
    """The highest use outside torch's allocator: the context, libraries, and other processes."""
    resting_bytes: int
    """Allocated between steps, including the batch and the outputs of the last step."""
    constant_bytes: int | None = None
    """The part of `resting_bytes` that certainly does not grow with the batch; None if unknown."""
    growth_bytes_per_step: float = 0.0
    """0.0 unless it is sure that memory between steps grows."""
    alloc_retries: int = 0
    validation_peak_bytes: int | None = None
    """None if the peak is training's own."""


@dataclass(frozen=True)
class BatchSizeAdvice:
    """A suggested batch size, or the reason why there is none."""

    batch_size: int
    suggested: int | None = None
    """The current size if it is in the target band, else a size in the band that even the careful
    estimate allows."""
    low: int | None = None
    """The size at the lower end of the band, by the careful estimate."""
    high: int | None = None
    """The size at the upper end of the band, by the hopeful estimate."""
    largest: int | None = None
    """The largest size that the device is predicted to hold, after the allocator has released its
    cache."""
    reason: str = ""
    """Why nothing is suggested."""
    constant_bytes: int | None = None
    per_sample_bytes: int | None = None
    notes: tuple[str, ...] = ()
    """Why the suggestion is lower than the peaks of training allow."""


def fit_lines(
    peaks: Sequence[Peak], *, resting_bytes: int, constant_bytes: int | None
) -> tuple[PeakLine, PeakLine]:
    """Return a careful line, which allows smaller batches, and a hopeful line.

    If only a single batch size was run, the careful line counts as constant what certainly is, and
    the hopeful line everything that stays allocated between steps. Otherwise both lines have the
    slope between the smallest and the largest size, and the careful line is raised so that no peak
    in between is above it.
    """
    highest: dict[int, int] = {}
    for peak in peaks:
        highest[peak.samples] = max(peak.peak_allocated_bytes, highest.get(peak.samples, 0))
    small, large = min(highest), max(highest)
    if small == large:
        certain = resting_bytes if constant_bytes is None else min(constant_bytes, resting_bytes)
        return (
            _line_through(highest[large], large, certain),
            _line_through(highest[large], large, resting_bytes),
        )
    slope = (highest[large] - highest[small]) / (large - small)
    hopeful = PeakLine(highest[large] - slope * large, slope)
    above = max(peak - hopeful.at(samples) for samples, peak in highest.items())
    return PeakLine(hopeful.constant_bytes + above, slope), hopeful


def _line_through(peak_bytes: int, samples: int, constant_bytes: int) -> PeakLine:
    """Return the line through a peak that has a given constant part."""
    constant = min(constant_bytes, peak_bytes)
    return PeakLine(constant, (peak_bytes - constant) / samples)


def suggest_batch_size(
    peaks: Sequence[Peak], room: DeviceRoom, *, band: tuple[float, float] = (0.6, 0.8)
) -> BatchSizeAdvice:
    """Suggest the batch size whose peak fills a band of the device's memory."""
    now = max(peak.samples for peak in peaks)
    fitted, hopeful = fit_lines(
        peaks, resting_bytes=room.resting_bytes, constant_bytes=room.constant_bytes
    )
    fragmentation = max(peak.fragmentation for peak in peaks)
    slope = min(fitted.per_sample_bytes, hopeful.per_sample_bytes)
    if (reason := _reason_against(room, slope, fragmentation)) is not None:
        return BatchSizeAdvice(now, reason=reason)
    # The validation batch is assumed to have the size of the training batch, and to grow with it.
    validation_slope = ((room.validation_peak_bytes or 0) - fitted.constant_bytes) / now
    careful = PeakLine(fitted.constant_bytes, max(fitted.per_sample_bytes, validation_slope))
    low = _fitting_size(room, band[0], fragmentation, careful)
    middle = _fitting_size(room, sum(band) / 2, fragmentation, careful)
    safe = _fitting_size(room, band[1], fragmentation, careful)
    high = max(safe, _fitting_size(room, band[1], fragmentation, hopeful))
    if safe < 1:
        reason = "the model alone fills the target band, so that no batch fits into it"
        return BatchSizeAdvice(now, reason=reason)
    validation_decides = validation_slope > fitted.per_sample_bytes
    notes = list(_notes(room, validation_decides=validation_decides))
    limit = MAX_STRETCH * now
    if high > limit:
        low, safe, high = min(low, limit), min(safe, limit), limit
        notes.append(f"limited to {MAX_STRETCH} times the largest batch that was run")
    if low <= now <= safe:
        suggested = now
    else:
        suggested = max(1, _aligned(min(middle, safe), low, safe))
    return BatchSizeAdvice(
        batch_size=now,
        suggested=suggested,
        low=max(1, min(low, suggested)),
        high=max(high, suggested),
        largest=_largest(peaks, room, fitted),
        constant_bytes=int(careful.constant_bytes),
        per_sample_bytes=int(careful.per_sample_bytes),
        notes=tuple(notes),
    )


def _fitting_size(room: DeviceRoom, frac: float, fragmentation: float, line: PeakLine) -> int:
    """Return the batch size whose peak, by a line, fills a share of the device's memory."""
    # Fragmentation makes the pool reserve more than is allocated, in proportion.
    left = (room.total_bytes * frac - room.others_bytes) / fragmentation - line.constant_bytes
    return max(0, int(left / line.per_sample_bytes))


def growth_reason(bytes_per_step: float) -> str:
    """Say why no batch size is suggested when memory grows from step to step."""
    return (
        f"memory between steps grows by {size(bytes_per_step)} per step, so any batch size fills "
        "the device in the end: first find out what stays in memory from step to step"
    )


def _largest(peaks: Sequence[Peak], room: DeviceRoom, line: PeakLine) -> int | None:
    """Return the batch size at which the device is full.

    None if that is too far from the sizes that were run, or if the device has few segments. Before
    torch's allocator gives up, it releases every free segment. Then only allocated memory and the
    free parts of segments in use count.
    """
    room_bytes = room.total_bytes - room.others_bytes
    if room_bytes < MIN_SEGMENTS * SEGMENT_BYTES:
        return None
    fullest = max(peaks, key=lambda peak: (peak.samples, peak.peak_allocated_bytes))
    split_frac = fullest.split_bytes / fullest.peak_allocated_bytes
    largest = int((room_bytes / (1 + split_frac) - line.constant_bytes) / line.per_sample_bytes)
    return largest if fullest.samples <= largest <= MAX_STRETCH * fullest.samples else None


def _reason_against(room: DeviceRoom, slope: float, fragmentation: float) -> str | None:
    """Return why nothing can be suggested, or None."""
    if room.growth_bytes_per_step:
        return growth_reason(room.growth_bytes_per_step)
    if room.alloc_retries:
        return (
            "the allocator ran out of memory and had to free its cache: a larger batch would be "
            "slower still"
        )
    if fragmentation >= MAX_FRAGMENTATION:
        return (
            f"the pool is fragmented: at its peak it reserves {fragmentation:.1f} times what is "
            "allocated; try PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True first"
        )
    return None if slope > 0 else "the memory peak does not grow with the batch size"


def _notes(room: DeviceRoom, *, validation_decides: bool) -> Iterator[str]:
    """Yield why a suggestion is lower than training's own peaks allow."""
    if validation_decides and room.validation_peak_bytes is not None:
        yield (
            f"validation sets the peak ({size(room.validation_peak_bytes)}), and its batch is "
            "assumed to grow with the training batch; if it has a size of its own, more fits"
        )
    if room.others_bytes > CONTEXT_BYTES:
        yield (
            f"up to {size(room.others_bytes)} of the device are in use outside this process's torch"
        )


def _aligned(target: int, low: int, high: int) -> int:
    """Return a multiple of 8 next to the target, or the target if none is within the bounds."""
    below = target // _ALIGNMENT * _ALIGNMENT
    above = -(-target // _ALIGNMENT) * _ALIGNMENT
    for multiple in (below, above):
        if low <= multiple <= high and multiple:
            return multiple
    return target
