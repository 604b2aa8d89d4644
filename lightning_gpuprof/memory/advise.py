"""Suggests a batch size from the memory peaks of the sizes that were run: pure arithmetic."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lightning_gpuprof.units import size

MAX_STRETCH = 4
"""A suggestion is at most this many times the largest size run: further away another kernel or
algorithm may be chosen, and a straight line does not hold."""
MAX_FRAGMENTED = 2.0
"""Reserved over allocated at the peak, from which on more of the pool is idle than used: nothing
is suggested."""
IDLE_BYTES = 64 * 2**20
"""The pool takes segments of up to 20 MiB for small and for large blocks, so that much may be
idle in any run without fragmentation."""
CONTEXT_BYTES = 2 * 2**30
"""A CUDA context with NCCL and libraries takes less: more outside torch belongs to others."""
SEGMENT_BYTES = 20 * 2**20
"""The pool's segment for smaller blocks."""
FEWEST_SEGMENTS = 20
"""With fewer on a device one segment is over 5 % of it, too coarse to predict the largest batch."""
_ALIGNMENT = 8


@dataclass(frozen=True)
class Peak:
    """The highest memory while training at one batch size."""

    samples: int
    peak_allocated_bytes: int
    peak_reserved_bytes: int
    split_bytes: int = 0
    """Free at the end of forward in segments in use, which the pool cannot release."""

    @property
    def reserved_per_allocated(self) -> float:
        """How much more the pool held than was used of it."""
        idle = self.peak_reserved_bytes - self.peak_allocated_bytes
        return self.peak_reserved_bytes / self.peak_allocated_bytes if idle > IDLE_BYTES else 1.0


@dataclass(frozen=True)
class Line:
    """A peak as a straight line in the batch size."""

    constant_bytes: float
    per_sample_bytes: float

    def at(self, samples: int) -> float:
        """Return the line's peak for a batch size."""
        return self.constant_bytes + self.per_sample_bytes * samples


@dataclass(frozen=True)
class DeviceRoom:
    """The memory to fill, what of it is taken, and what withholds a suggestion or widens it."""

    total_bytes: int
    others_bytes: int
    """Highest use outside torch's allocator: the context, libraries, other processes."""
    resting_bytes: int
    """Allocated between steps, the last step's batch and outputs with it."""
    known_bytes: int | None = None
    """The part of it known not to grow with the batch; None where nothing is."""
    growth_bytes_per_step: float = 0.0
    """0.0 where memory between steps does not surely grow."""
    alloc_retries: int = 0
    validation_peak_bytes: int | None = None
    """None where training set the peak."""


@dataclass(frozen=True)
class BatchSizeAdvice:
    """A batch size, or the reason why none is suggested.

    `suggested` is the current size where that lies in the target band, else a size in the band
    that even the careful estimate allows; `low` is the size at the band's lower end by that
    estimate, `high` at its upper end by the hopeful one. `largest` is the most that the whole
    device is predicted to hold, after allocation retries. `notes` say why the band is wide.
    """

    batch_size: int
    suggested: int | None = None
    low: int | None = None
    high: int | None = None
    largest: int | None = None
    reason: str = ""
    constant_bytes: int | None = None
    per_sample_bytes: int | None = None
    notes: tuple[str, ...] = ()


def lines(
    peaks: Sequence[Peak], *, resting_bytes: int, known_bytes: int | None
) -> tuple[Line, Line]:
    """Fit a careful line, which allows the smaller batches, and a hopeful one.

    With one batch size the careful line takes as constant only memory known to be, the hopeful one
    all that stays allocated between steps. With more sizes the line goes through the smallest and
    the largest, and the careful one is raised to the sizes between that lie above it.
    """
    highest: dict[int, int] = {}
    for peak in peaks:
        highest[peak.samples] = max(peak.peak_allocated_bytes, highest.get(peak.samples, 0))
    small, large = min(highest), max(highest)
    if small == large:
        known = resting_bytes if known_bytes is None else min(known_bytes, resting_bytes)
        constants = (min(constant, highest[large]) for constant in (known, resting_bytes))
        careful, hopeful = (Line(one, (highest[large] - one) / large) for one in constants)
        return careful, hopeful
    slope = (highest[large] - highest[small]) / (large - small)
    line = Line(highest[large] - slope * large, slope)
    above = max(peak - line.at(samples) for samples, peak in highest.items())
    return Line(line.constant_bytes + above, slope), line


def advise(
    peaks: Sequence[Peak], room: DeviceRoom, *, band: tuple[float, float] = (0.6, 0.8)
) -> BatchSizeAdvice:
    """Suggest the batch size whose peak fills a band of the device's memory."""
    now = max(peak.samples for peak in peaks)
    fitted, hopeful = lines(peaks, resting_bytes=room.resting_bytes, known_bytes=room.known_bytes)
    fragmented = max(peak.reserved_per_allocated for peak in peaks)
    slope = min(fitted.per_sample_bytes, hopeful.per_sample_bytes)
    if (reason := _withheld(room, slope, fragmented)) is not None:
        return BatchSizeAdvice(now, reason=reason)
    # A validation batch is assumed to grow along with training's.
    validation = ((room.validation_peak_bytes or 0) - fitted.constant_bytes) / now
    careful = Line(fitted.constant_bytes, max(fitted.per_sample_bytes, validation))
    fracs = (band[0], sum(band) / 2, band[1])
    low, middle, safe = (_fitting(room, frac, fragmented, careful) for frac in fracs)
    high = max(safe, _fitting(room, band[1], fragmented, hopeful))
    if safe < 1:
        reason = "the model alone fills the band: no batch size fits into it"
        return BatchSizeAdvice(now, reason=reason)
    notes = list(_notes(room, validated=validation > fitted.per_sample_bytes))
    limit = MAX_STRETCH * now
    if high > limit:
        low, high, safe = min(low, limit), limit, min(safe, limit)
        notes.append(f"held at {MAX_STRETCH} times the largest batch that was run")
    suggested = max(1, now if low <= now <= safe else _aligned(min(middle, safe), low, safe))
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


def _fitting(room: DeviceRoom, frac: float, fragmented: float, line: Line) -> int:
    """Return the batch size on a line that fills a share of the device's memory."""
    # Reserved exceeds allocated by the pool's fragmentation, which grows along.
    left = (room.total_bytes * frac - room.others_bytes) / fragmented - line.constant_bytes
    return max(0, int(left / line.per_sample_bytes))


def leaking(bytes_per_step: float) -> str:
    """Return why nothing is suggested where memory grows from step to step."""
    return (
        f"memory between steps grows by {size(bytes_per_step)} per step, so any batch size fills "
        "the device in the end: first find what is kept from step to step"
    )


def _largest(peaks: Sequence[Peak], room: DeviceRoom, line: Line) -> int | None:
    """Return the size at which the device is full.

    None where that is too far from the sizes run, or the device has few segments. Before torch's
    allocator gives up it releases every free segment: then allocated memory and the free rests of
    segments in use count against the device's memory.
    """
    room_bytes = room.total_bytes - room.others_bytes
    if room_bytes < FEWEST_SEGMENTS * SEGMENT_BYTES:
        return None
    fullest = max(peaks, key=lambda peak: (peak.samples, peak.peak_allocated_bytes))
    split = fullest.split_bytes / fullest.peak_allocated_bytes
    largest = int((room_bytes / (1 + split) - line.constant_bytes) / line.per_sample_bytes)
    return largest if fullest.samples <= largest <= MAX_STRETCH * fullest.samples else None


def _withheld(room: DeviceRoom, slope: float, fragmented: float) -> str | None:
    """Return why nothing can be suggested, or None."""
    if room.growth_bytes_per_step:
        return leaking(room.growth_bytes_per_step)
    if room.alloc_retries:
        return (
            "the allocator ran out of memory and had to free its cache: a larger batch would be "
            "slower still"
        )
    if fragmented >= MAX_FRAGMENTED:
        return (
            f"the pool is fragmented: at its peak it reserves {fragmented:.1f} times what is "
            "allocated; try PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True first"
        )
    return None if slope > 0 else "the memory peak does not grow with the batch size"


def _notes(room: DeviceRoom, *, validated: bool) -> Iterator[str]:
    """Yield why a suggestion is lower than training's own peaks allow."""
    if validated and room.validation_peak_bytes is not None:
        yield (
            f"validation sets the peak ({size(room.validation_peak_bytes)}): its batch is assumed "
            "to grow along; with a validation batch of its own, more fits"
        )
    if room.others_bytes > CONTEXT_BYTES:
        yield f"others hold up to {size(room.others_bytes)} of the device outside this process"


def _aligned(target: int, low: int, high: int) -> int:
    """Return the multiple of 8 next to a size, if one lies between the bounds."""
    for near in (target // _ALIGNMENT * _ALIGNMENT, -(-target // _ALIGNMENT) * _ALIGNMENT):
        if low <= near <= high and near:
            return near
    return target
