"""Suggests a batch size from the memory peaks of the sizes that were run: pure arithmetic."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from lightning_gpuprof.analysis.memory.memory_line import Line, Lines, Peak, lines
from lightning_gpuprof.units import size

MAX_STRETCH = 4
"""A suggestion reaches at most this many times past the largest size run: beyond it too much
else (another kernel, another algorithm) may change for a straight line to hold."""
NOISY_FRAC = 0.1
"""Peaks of one size, or tensors of one size, that differ by more say that samples differ."""
FRAGMENTED = 1.3
"""Reserved over allocated at the peak, from which on the pool is called fragmented."""
MAX_FRAGMENTED = 2.0
"""From here on more of the pool lies idle than is used: nothing is suggested."""
IDLE_BYTES = 64 * 2**20
"""The pool takes memory in segments of up to 20 MiB, of large and small blocks: so much of it may
lie idle in any run, and says nothing of fragmentation."""
CONTEXT_BYTES = 2 * 2**30
"""A CUDA context with NCCL and libraries takes less: more outside torch is somebody else's."""
SEGMENT_BYTES = 20 * 2**20
"""What the pool takes at once for smaller blocks."""
FEWEST_SEGMENTS = 20
"""On a device of fewer one segment is over 5 % of it: the largest batch cannot be told to that."""
_ALIGNMENT = 8


@dataclass(frozen=True)
class DeviceRoom:
    """What there is to fill, and what is taken already.

    Args:
        total_bytes: The device's memory.
        others_bytes: Most that was seen outside torch's allocator: the context, libraries,
            other processes.
        resting_bytes: Allocated between steps: parameters, gradients, optimizer state, and the
            batch and outputs of the last step.
        known_bytes: Of it what is known not to grow with the batch; None where nothing is.
        least_others_bytes: Least that was seen outside; None where it was seen once.
    """

    total_bytes: int
    others_bytes: int
    resting_bytes: int
    known_bytes: int | None = None
    least_others_bytes: int | None = None


@dataclass(frozen=True)
class Circumstances:
    """What else was seen: it may withhold a suggestion, or widen it.

    Args:
        growth_bytes_per_step: By how much memory between steps surely grows; 0.0 where it does not.
        alloc_retries: How often the allocator had to free its cache and try again.
        cuda_graphs: Some memory belongs to CUDA graphs.
        compiled_windows: Windows left out of the peaks because something was compiled in them.
        validation_peak_bytes: The highest peak while validating; None where none was seen.
    """

    growth_bytes_per_step: float = 0.0
    alloc_retries: int = 0
    cuda_graphs: bool = False
    compiled_windows: int = 0
    validation_peak_bytes: int | None = None


@dataclass(frozen=True)
class BatchSizeAdvice:
    """A batch size, or the reason why none is suggested.

    `suggested` is the size in use where that lies in the target band, else one in the band that
    even the careful estimate allows; `low` and `high` are the sizes at the band's ends, `low` by
    the careful estimate and `high` by the hopeful one. `largest` is the most that the whole
    device is predicted to hold, with allocation retries on the way there. All are None where the
    measurements do not bear a suggestion out. `notes` say what widened it.
    """

    batch_size: int
    suggested: int | None = None
    low: int | None = None
    high: int | None = None
    largest: int | None = None
    reason: str = ""
    constant_bytes: int | None = None
    per_sample_bytes: int | None = None
    notes: tuple[str, ...] = field(default=())


def advise(
    peaks: Sequence[Peak],
    room: DeviceRoom,
    *,
    band: tuple[float, float] = (0.6, 0.8),
    seen: Circumstances | None = None,
) -> BatchSizeAdvice | None:
    """Suggest the batch size whose peak fills a band of the device's memory.

    Args:
        peaks: One per window of training steps; empty gives None, unless windows were left out.
        room: Of the device.
        band: Shares of the device's memory to aim for.
        seen: What withholds or widens the suggestion.

    >>> gib = 2**30
    >>> room = DeviceRoom(total_bytes=24 * gib, others_bytes=gib // 2, resting_bytes=2 * gib)
    >>> advice = advise([Peak(16, 6 * gib, 6 * gib)], room)
    >>> advice.low, advice.suggested, advice.high
    (47, 56, 64)
    """
    seen = seen or Circumstances()
    if not peaks:
        return None
    largest = max(peak.samples for peak in peaks)
    fitted = lines(peaks, resting_bytes=room.resting_bytes, known_bytes=room.known_bytes)
    fragmented = max(1.0, *_reserved_per_allocated(peaks))
    reason = _withheld(seen, fitted, fragmented)
    if reason is not None:
        return BatchSizeAdvice(largest, reason=reason)
    careful, hopeful = _with_validation(fitted, seen, largest), fitted.hopeful
    varying = _variation(peaks)
    if varying:
        # A larger batch holds the longest samples seen more often, never longer ones.
        careful = replace(careful, per_sample_bytes=careful.per_sample_bytes * (1 + varying))
    fit = _Fit(room, band, fragmented, careful, hopeful)
    low, high, safe = fit.low(), fit.high(), fit.safe_high()
    if safe < 1:
        return BatchSizeAdvice(
            largest, reason="the model alone fills the band: no batch size fits into it"
        )
    notes = list(_notes(seen, fitted, room, fragmented, varying, largest))
    limit = MAX_STRETCH * largest
    if high > limit:
        low, high, safe = min(low, limit), limit, min(safe, limit)
        notes.append(f"held at {MAX_STRETCH} times the largest batch that was run")
    in_band = low <= largest <= safe
    target = min(fit.middle(), safe)
    suggested = largest if in_band else _aligned(target, min(low, target), safe)
    return BatchSizeAdvice(
        batch_size=largest,
        suggested=max(1, suggested),
        low=max(1, min(low, suggested)),
        high=max(high, suggested),
        largest=_largest(peaks, room, fitted.careful),
        constant_bytes=int(careful.constant_bytes),
        per_sample_bytes=int(careful.per_sample_bytes),
        notes=tuple(notes),
    )


def _largest(peaks: Sequence[Peak], room: DeviceRoom, line: Line) -> int | None:
    """Return the size at which the device is full; None where that cannot be told.

    That is where it is too far from what was run, or the device has few segments.

    Before torch's allocator gives up it frees every segment that is not in use: what then stands
    against the device's memory is what is allocated and the free rests of segments in use.
    """
    if room.total_bytes - room.others_bytes < FEWEST_SEGMENTS * SEGMENT_BYTES:
        return None
    ran = max(peak.samples for peak in peaks)
    # A window of shorter samples leaves more of the same segments free, and needs less.
    fullest = max(
        (peak for peak in peaks if peak.samples == ran), key=lambda peak: peak.peak_allocated_bytes
    )
    split = fullest.split_bytes / fullest.peak_allocated_bytes
    left = (room.total_bytes - room.others_bytes) / (1 + split) - line.constant_bytes
    largest = int(left / line.per_sample_bytes)
    return largest if ran <= largest <= MAX_STRETCH * ran else None


@dataclass(frozen=True)
class _Fit:
    """Sizes that fill shares of the device, by either line."""

    room: DeviceRoom
    band: tuple[float, float]
    fragmented: float
    careful: Line
    hopeful: Line

    def low(self) -> int:
        return self._size(self.band[0], self.careful, self.room.others_bytes)

    def middle(self) -> int:
        return self._size(sum(self.band) / 2, self.careful, self.room.others_bytes)

    def safe_high(self) -> int:
        return self._size(self.band[1], self.careful, self.room.others_bytes)

    def high(self) -> int:
        least = self.room.least_others_bytes
        others = self.room.others_bytes if least is None else least
        return max(self.safe_high(), self._size(self.band[1], self.hopeful, others))

    def _size(self, frac: float, line: Line, others: int) -> int:
        # Reserved exceeds allocated by the pool's fragmentation, which grows along.
        left = (self.room.total_bytes * frac - others) / self.fragmented - line.constant_bytes
        return max(0, int(left / line.per_sample_bytes))


def _reserved_per_allocated(peaks: Sequence[Peak]) -> Iterator[float]:
    """Yield how much more the pool held than was used of it, window by window.

    It keeps what it once took: a window of small batches is held against the most that was
    allocated until then, and not against its own.
    """
    allocated = 0
    for peak in peaks:
        allocated = max(allocated, peak.peak_allocated_bytes)
        idle = peak.peak_reserved_bytes - allocated
        yield 1.0 if idle <= IDLE_BYTES else peak.peak_reserved_bytes / max(1, allocated)


def _withheld(seen: Circumstances, fitted: Lines, fragmented: float) -> str | None:
    """Return why nothing can be suggested, or None."""
    if seen.growth_bytes_per_step:
        return leaking(seen.growth_bytes_per_step)
    if seen.alloc_retries:
        return (
            "the allocator ran out of memory and had to free its cache: a larger batch would be "
            "slower still"
        )
    if seen.cuda_graphs:
        return (
            "CUDA graphs of this process, captured in this training or before it, keep memory of "
            "their own for each batch shape, which does not grow with the batch in a straight line"
        )
    if fragmented >= MAX_FRAGMENTED:
        return (
            f"the pool is fragmented: at its peak it reserves {fragmented:.1f} times what is "
            "allocated; try PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True first"
        )
    if fitted.hopeful.per_sample_bytes <= 0 or fitted.careful.per_sample_bytes <= 0:
        return "the memory peak does not grow with the batch size"
    return None


def leaking(bytes_per_step: float) -> str:
    """Return why nothing is suggested where memory grows from step to step.

    >>> leaking(2**20)
    'memory between steps grows by 1.00 MiB per step, so no peak tells what a batch takes, and any \
size fills the device in the end: find first what is kept from step to step'
    """
    return (
        f"memory between steps grows by {size(bytes_per_step)} per step, so no peak tells what a "
        "batch takes, and any size fills the device in the end: find first what is kept from step "
        "to step"
    )


def _with_validation(fitted: Lines, seen: Circumstances, largest: int) -> Line:
    """Return the careful line, steeper where validation holds more than training."""
    careful, validation = fitted.careful, seen.validation_peak_bytes
    if validation is None or validation <= careful.at(largest):
        return careful
    return replace(
        careful, per_sample_bytes=(validation - careful.constant_bytes) / max(1, largest)
    )


def _notes(
    seen: Circumstances,
    fitted: Lines,
    room: DeviceRoom,
    fragmented: float,
    varying: float,
    largest: int,
) -> Iterator[str]:
    """Yield what widens a suggestion."""
    if varying:
        yield f"samples vary in length: peaks or tensors of one batch size differ by {varying:.0%}"
    validation = seen.validation_peak_bytes
    if validation is not None and validation > fitted.careful.at(largest):
        yield (
            f"validation sets the peak ({size(validation)}): its batch is taken to grow along; "
            "with a validation batch of its own, more fits"
        )
    if seen.compiled_windows:
        yield f"{seen.compiled_windows} windows with compilation in them were left out"
    if fragmented >= FRAGMENTED:
        yield f"the pool is fragmented: it reserves {fragmented:.1f} times what is allocated"
    least = room.others_bytes if room.least_others_bytes is None else room.least_others_bytes
    if room.others_bytes > CONTEXT_BYTES or room.others_bytes - least > CONTEXT_BYTES // 4:
        yield f"others hold up to {size(room.others_bytes)} of the device outside this process"
    if fitted.sizes > 1 and room.known_bytes is not None:
        short = room.known_bytes - fitted.hopeful.constant_bytes
        if short > NOISY_FRAC * room.known_bytes:
            yield "the peak grows faster than in a straight line between the sizes that were run"


def _variation(peaks: Sequence[Peak]) -> float:
    """Return by how much samples differ in size, as a share; 0.0 where by less than noise.

    Of each batch size the most against the least, in memory and in the batch's own tensors.
    """
    by_size: dict[int, list[Peak]] = {}
    for peak in peaks:
        by_size.setdefault(peak.samples, []).append(peak)
    spread = 0.0
    for same in by_size.values():
        for values in (
            [peak.peak_allocated_bytes for peak in same],
            [n for peak in same for n in (peak.batch_bytes, peak.least_batch_bytes) if n],
        ):
            if values and min(values) > 0:
                spread = max(spread, max(values) / min(values) - 1)
    return spread if spread > NOISY_FRAC else 0.0


def _aligned(target: int, low: int, high: int) -> int:
    """Return the multiple of 8 next to a size, if one lies between the bounds."""
    for near in (target // _ALIGNMENT * _ALIGNMENT, -(-target // _ALIGNMENT) * _ALIGNMENT):
        if low <= near <= high and near:
            return near
    return target
