"""The batch size to train with, from sizes that were run for real."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lightning_gpuprof.analysis.memory.batch_size import BatchSizeAdvice, DeviceRoom, advise
from lightning_gpuprof.analysis.memory.memory_line import Peak
from lightning_gpuprof.analysis.run.throughput import Knee, knee
from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.probes.batch_size.tune_types import TunePoint


@dataclass(frozen=True)
class Tune:
    """The curve, and the size that it speaks for.

    Attributes:
        points: One per batch size, smallest first.
        knee: After which size more buys little; None where fewer than two ran.
        memory: What the memory allows; None where it was not measured (CPU).
        suggested: None where nothing ran.
        reason: What decided.
    """

    points: tuple[TunePoint, ...]
    knee: Knee | None
    memory: BatchSizeAdvice | None
    suggested: int | None
    reason: str


def samples_per_s(point: TunePoint) -> float:
    """Return the throughput of a size that ran."""
    assert point.step_ns
    return point.batch_size * 1e9 / point.step_ns


def run_tune(
    measure: Callable[[int], TunePoint],
    batch_sizes: Sequence[int],
    *,
    band: tuple[float, float] = (0.6, 0.8),
) -> Tune:
    """Measure sizes from the smallest up, until one runs out of memory.

    Args:
        measure: Measures one size.
        batch_sizes: Sizes to run.
        band: Shares of the device's memory to aim for.

    Raises:
        ConfigError: No size, or one below 1.
    """
    if not batch_sizes or min(batch_sizes) < 1:
        raise ConfigError(f"batch sizes {list(batch_sizes)}: give sizes of 1 or more.")
    points = []
    for size in sorted(set(batch_sizes)):
        points.append(measure(size))
        if points[-1].error is not None:
            break  # a larger one would fail likewise
    return judge(points, band=band)


def judge(points: Sequence[TunePoint], *, band: tuple[float, float]) -> Tune:
    """Return what the curve says."""
    ran = [point for point in points if point.step_ns]
    found = knee({point.batch_size: samples_per_s(point) for point in ran})
    memory = _memory(ran, band)
    suggested, reason = _suggested(ran, found, memory)
    return Tune(tuple(points), found, memory, suggested, reason)


def _suggested(
    ran: Sequence[TunePoint], found: Knee | None, memory: BatchSizeAdvice | None
) -> tuple[int | None, str]:
    if not ran:
        return None, "no size ran"
    largest = max(point.batch_size for point in ran)
    allowed = memory.high if memory is not None else None
    if memory is not None and memory.suggested is None:
        return None, memory.reason
    if found is not None and found.reached:
        if allowed is not None and allowed < found.samples:
            return allowed, "the memory band ends before the throughput stops rising"
        return found.samples, "above it more buys less than 5% of throughput"
    if memory is not None and memory.suggested is not None:
        return memory.suggested, "throughput still rises: the size that fills the memory band"
    return largest, "the fastest that was run; throughput may rise further with larger ones"


def _memory(ran: Sequence[TunePoint], band: tuple[float, float]) -> BatchSizeAdvice | None:
    peaks, others, resting, total = [], [0], [0], 0
    for point in ran:
        if point.peak_allocated_bytes is None or point.peak_reserved_bytes is None:
            continue
        total = point.total_bytes or 0
        others.append(point.others_bytes or 0)
        resting.append(point.resting_bytes or 0)
        peaks.append(Peak(point.batch_size, point.peak_allocated_bytes, point.peak_reserved_bytes))
    if not peaks or not total:
        return None
    room = DeviceRoom(total_bytes=total, others_bytes=max(others), resting_bytes=max(resting))
    return advise(peaks, room, band=band)
