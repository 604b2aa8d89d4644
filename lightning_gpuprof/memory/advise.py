"""Suggests a batch size from the memory peaks of the sizes that were run: pure arithmetic."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from lightning_gpuprof.memory.line import Line, Lines, Peak, lines
from lightning_gpuprof.units import size

MAX_STRETCH = 4
"""A suggestion is at most this many times the largest size run: further away another kernel or
algorithm may be chosen, and a straight line does not hold."""
NOISY_FRAC = 0.1
"""Batches of one size whose tensors differ by more hold samples that differ."""
FRAGMENTED = 1.3
"""Reserved over allocated at the peak, from which on the pool is called fragmented."""
MAX_FRAGMENTED = 2.0
"""From here on more of the pool is idle than used: nothing is suggested."""
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
class DeviceRoom:
    """The memory to fill, and the part that is taken already.

    Args:
        total_bytes: The device's memory.
        others_bytes: Highest use outside torch's allocator: the context, libraries, other
            processes.
        resting_bytes: Allocated between steps: parameters, gradients, optimizer state, and the
            batch and outputs of the last step.
        known_bytes: The part of it known not to grow with the batch; None where nothing is.
        least_others_bytes: Lowest use outside; None where it was read once.
    """

    total_bytes: int
    others_bytes: int
    resting_bytes: int
    known_bytes: int | None = None
    least_others_bytes: int | None = None


@dataclass(frozen=True)
class Circumstances:
    """Facts that withhold a suggestion, or widen it.

    Args:
        growth_bytes_per_step: How fast memory between steps surely grows; 0.0 where it does not.
        alloc_retries: How often the allocator had to release its cache and try again.
        cuda_graphs: CUDA graphs hold memory.
        compiled: Something was compiled while the peak was reached.
        validation_peak_bytes: The peak that validation set; None where training set it.
    """

    growth_bytes_per_step: float = 0.0
    alloc_retries: int = 0
    cuda_graphs: bool = False
    compiled: bool = False
    validation_peak_bytes: int | None = None


@dataclass(frozen=True)
class BatchSizeAdvice:
    """A batch size, or the reason why none is suggested.

    `suggested` is the current size where that lies in the target band, else a size in the band
    that even the careful estimate allows. `low` and `high` are the sizes at the band's ends: `low`
    by the careful estimate, `high` by the hopeful one. `largest` is the most that the whole device
    is predicted to hold, after allocation retries. All are None where the measurements do not
    support a suggestion. `notes` say why it is wide.
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


def advise(
    peaks: Sequence[Peak],
    room: DeviceRoom,
    *,
    band: tuple[float, float] = (0.6, 0.8),
    facts: Circumstances | None = None,
) -> BatchSizeAdvice:
    """Suggest the batch size whose peak fills a band of the device's memory.

    Args:
        peaks: At least one.
        room: Of the device.
        band: Shares of the device's memory to aim for.
        facts: Facts that withhold or widen the suggestion.

    >>> gib = 2**30
    >>> room = DeviceRoom(total_bytes=24 * gib, others_bytes=gib // 2, resting_bytes=2 * gib)
    >>> advice = advise([Peak(16, 6 * gib, 6 * gib)], room)
    >>> advice.low, advice.suggested, advice.high
    (47, 56, 64)
    """
    facts = facts or Circumstances()
    largest = max(peak.samples for peak in peaks)
    fitted = lines(peaks, resting_bytes=room.resting_bytes, known_bytes=room.known_bytes)
    fragmented = max(map(_reserved_per_allocated, peaks))
    reason = _withheld(facts, fitted, fragmented)
    if reason is not None:
        return BatchSizeAdvice(largest, reason=reason)
    careful = _with_validation(fitted, facts, largest)
    varying = max(map(_variation, peaks))
    # A larger batch holds the longest samples more often, but never longer ones.
    careful = replace(careful, per_sample_bytes=careful.per_sample_bytes * (1 + varying))
    least = room.others_bytes if room.least_others_bytes is None else room.least_others_bytes

    def fits(frac: float, line: Line, others: int) -> int:
        # Reserved exceeds allocated by the pool's fragmentation, which grows along.
        left = (room.total_bytes * frac - others) / fragmented - line.constant_bytes
        return max(0, int(left / line.per_sample_bytes))

    low, middle, safe = (
        fits(frac, careful, room.others_bytes) for frac in (band[0], sum(band) / 2, band[1])
    )
    high = max(safe, fits(band[1], fitted.hopeful, least))
    if safe < 1:
        return BatchSizeAdvice(
            largest, reason="the model alone fills the band: no batch size fits into it"
        )
    notes = list(_notes(facts, fitted, room, fragmented, varying, largest))
    limit = MAX_STRETCH * largest
    if high > limit:
        low, high, safe = min(low, limit), limit, min(safe, limit)
        notes.append(f"held at {MAX_STRETCH} times the largest batch that was run")
    target = min(middle, safe)
    in_band = low <= largest <= safe
    suggested = max(1, largest if in_band else _aligned(target, min(low, target), safe))
    return BatchSizeAdvice(
        batch_size=largest,
        suggested=suggested,
        low=max(1, min(low, suggested)),
        high=max(high, suggested),
        largest=_largest(peaks, room, fitted.careful),
        constant_bytes=int(careful.constant_bytes),
        per_sample_bytes=int(careful.per_sample_bytes),
        notes=tuple(notes),
    )


def leaking(bytes_per_step: float) -> str:
    """Return why nothing is suggested where memory grows from step to step.

    >>> leaking(2**20)
    'memory between steps grows by 1.00 MiB per step, so any batch size fills the device in the \
end: first find what is kept from step to step'
    """
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


def _reserved_per_allocated(peak: Peak) -> float:
    """Return how much more the pool held than was used of it."""
    idle = peak.peak_reserved_bytes - peak.peak_allocated_bytes
    enough = idle > IDLE_BYTES
    return peak.peak_reserved_bytes / max(1, peak.peak_allocated_bytes) if enough else 1.0


def _variation(peak: Peak) -> float:
    """Return by how much batches of one size differ in bytes, as a share; 0.0 below the noise."""
    if not peak.least_batch_bytes:
        return 0.0
    spread = peak.batch_bytes / peak.least_batch_bytes - 1
    return spread if spread > NOISY_FRAC else 0.0


def _withheld(facts: Circumstances, fitted: Lines, fragmented: float) -> str | None:
    """Return why nothing can be suggested, or None."""
    if facts.growth_bytes_per_step:
        return leaking(facts.growth_bytes_per_step)
    if facts.alloc_retries:
        return (
            "the allocator ran out of memory and had to free its cache: a larger batch would be "
            "slower still"
        )
    if facts.cuda_graphs:
        return (
            "CUDA graphs of this process keep memory of their own for each batch shape, which does "
            "not grow with the batch in a straight line"
        )
    if fragmented >= MAX_FRAGMENTED:
        return (
            f"the pool is fragmented: at its peak it reserves {fragmented:.1f} times what is "
            "allocated; try PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True first"
        )
    if fitted.hopeful.per_sample_bytes <= 0 or fitted.careful.per_sample_bytes <= 0:
        return "the memory peak does not grow with the batch size"
    return None


def _with_validation(fitted: Lines, facts: Circumstances, largest: int) -> Line:
    """Return the careful line, steeper where validation holds more than training."""
    careful, validation = fitted.careful, facts.validation_peak_bytes
    if validation is None or validation <= careful.at(largest):
        return careful
    slope = (validation - careful.constant_bytes) / max(1, largest)
    return replace(careful, per_sample_bytes=slope)


def _notes(
    facts: Circumstances,
    fitted: Lines,
    room: DeviceRoom,
    fragmented: float,
    varying: float,
    largest: int,
) -> Iterator[str]:
    """Yield why a suggestion is wide."""
    if varying:
        yield f"samples vary in length: batches of one size differ by {varying:.0%} in bytes"
    validation = facts.validation_peak_bytes
    if validation is not None and validation > fitted.careful.at(largest):
        yield (
            f"validation sets the peak ({size(validation)}): its batch is assumed to grow along; "
            "with a validation batch of its own, more fits"
        )
    if facts.compiled:
        yield "something was compiled while the peak was reached: steps alone may need less"
    if fragmented >= FRAGMENTED:
        yield f"the pool is fragmented: it reserves {fragmented:.1f} times what is allocated"
    least = room.others_bytes if room.least_others_bytes is None else room.least_others_bytes
    if room.others_bytes > CONTEXT_BYTES or room.others_bytes - least > CONTEXT_BYTES // 4:
        yield f"others hold up to {size(room.others_bytes)} of the device outside this process"
    if fitted.sizes > 1 and room.known_bytes is not None:
        short = room.known_bytes - fitted.hopeful.constant_bytes
        if short > NOISY_FRAC * room.known_bytes:
            yield "the peak grows faster than in a straight line between the sizes that were run"


def _aligned(target: int, low: int, high: int) -> int:
    """Return the multiple of 8 next to a size, if one lies between the bounds."""
    for near in (target // _ALIGNMENT * _ALIGNMENT, -(-target // _ALIGNMENT) * _ALIGNMENT):
        if low <= near <= high and near:
            return near
    return target
