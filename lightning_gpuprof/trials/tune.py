"""`tune(...)`: a few batch sizes run for real, each in a process of its own; loads no torch."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.memory.advise import BatchSizeAdvice, DeviceRoom, Peak, advise
from lightning_gpuprof.trials.child import KilledError, ask
from lightning_gpuprof.trials.messages import TunePoint, TuneRequest

MIN_GAIN = 0.05
"""More memory that buys less than this share of throughput is not worth its risks."""


@dataclass(frozen=True)
class Knee:
    """The smallest batch size that trains nearly as fast as any larger one.

    Attributes:
        samples: That size.
        reached: False where it is the largest that was run: a larger one may be faster still.
        left_frac: What the fastest larger size gains over it; 0.0 where none is faster.
    """

    samples: int
    reached: bool
    left_frac: float


@dataclass(frozen=True)
class Tune:
    """Throughput and memory by batch size, and the suggested size.

    Attributes:
        points: One per batch size, smallest first.
        knee: After which size more buys little; None where fewer than two ran.
        memory: Advice by memory; None where it was not measured (CPU).
        suggested: None where nothing ran.
        reason: Why this size.
    """

    points: tuple[TunePoint, ...]
    knee: Knee | None
    memory: BatchSizeAdvice | None
    suggested: int | None
    reason: str


def tune(
    make: str | Callable[[], Any],
    batch_sizes: Sequence[int] = (8, 16, 32, 64),
    *,
    steps: int = 20,
    warmup: int = 5,
    optimizer: str = "model",
    precision: str = "32-true",
    device: str = "auto",
    target_frac: tuple[float, float] = (0.6, 0.8),
) -> Tune:
    """Measure throughput and memory of some batch sizes, and suggest one.

    Each size trains in a process of its own, up to the first that runs out of memory. One batch
    stays on the device: waiting for data is not part of it. On a CPU memory is not measured.

    Args:
        make: As `plan` takes it: a function at the top of a file, or "package.module:function".
        batch_sizes: Sizes to run.
        steps: Steps measured at each size.
        warmup: Steps before them.
        optimizer: As in `plan`.
        precision: As in `plan`.
        device: auto, cpu or cuda.
        target_frac: Band of the device's memory to fill.

    Returns:
        Each size's step in ns, samples per second and peak memory in bytes, and the suggestion.

    Raises:
        ConfigError: An argument or the model cannot be used.
    """
    if steps < 1 or warmup < 0:
        raise ConfigError(
            f"steps={steps}, warmup={warmup} would measure nothing. Pass 1 step or more."
        )
    if not batch_sizes or min(batch_sizes) < 1:
        raise ConfigError(f"batch sizes {list(batch_sizes)}: give sizes of 1 or more.")
    if not isinstance(make, str):
        from lightning_gpuprof.trials.user_model import spec_of  # loads torch

        make = spec_of(make)
    points: list[TunePoint] = []
    for size in sorted(set(batch_sizes)):
        request = TuneRequest(
            model=make,
            batch_size=size,
            steps=steps,
            warmup=warmup,
            optimizer=optimizer,
            precision=precision,
            device=device,
        )
        points.append(_measured(request))
        if points[-1].error is not None:
            break  # a larger size would fail likewise
    return judge(points, band=target_frac)


def _measured(request: TuneRequest) -> TunePoint:
    try:
        return ask(request, TunePoint)
    except KilledError as error:
        return TunePoint(batch_size=request.batch_size, error=str(error))


def samples_per_s(point: TunePoint) -> float:
    """Return the throughput of a size that ran."""
    assert point.step_ns
    return point.batch_size * 1e9 / point.step_ns


def judge(points: Sequence[TunePoint], *, band: tuple[float, float]) -> Tune:
    """Suggest a size from the measured points."""
    ran = [point for point in points if point.step_ns]
    found = knee({point.batch_size: samples_per_s(point) for point in ran})
    memory = _memory(ran, band)
    suggested, reason = _suggested(ran, found, memory)
    return Tune(tuple(points), found, memory, suggested, reason)


def knee(rates: Mapping[int, float]) -> Knee | None:
    """Return the size after which more memory buys less than `MIN_GAIN`; None for one size.

    >>> knee({8: 100.0, 16: 190.0, 32: 240.0, 64: 240.0})
    Knee(samples=32, reached=True, left_frac=0.0)
    """
    sizes = sorted(rates)
    if len(sizes) < 2:
        return None
    for index, size in enumerate(sizes):
        fastest = max((rates[larger] for larger in sizes[index + 1 :]), default=0.0)
        if fastest <= (1 + MIN_GAIN) * rates[size]:
            left = max(0.0, fastest / rates[size] - 1)
            return Knee(size, reached=size != sizes[-1], left_frac=left)
    raise AssertionError("the largest size has none above it")


def _suggested(
    ran: Sequence[TunePoint], found: Knee | None, memory: BatchSizeAdvice | None
) -> tuple[int | None, str]:
    if not ran:
        return None, "no size ran"
    if memory is not None and memory.suggested is None:
        return None, memory.reason
    if found is not None and found.reached:
        if memory is not None and memory.high is not None and memory.high < found.samples:
            return memory.high, "the memory band ends before the throughput stops rising"
        return found.samples, "above it more buys less than 5% of throughput"
    if memory is not None:
        return memory.suggested, "throughput still rises: the size that fills the memory band"
    largest = max(point.batch_size for point in ran)
    return largest, "the fastest that was run; throughput may rise further with larger ones"


def _memory(ran: Sequence[TunePoint], band: tuple[float, float]) -> BatchSizeAdvice | None:
    measured = [point for point in ran if point.peak_reserved_bytes and point.total_bytes]
    if not measured:
        return None
    peaks = [
        Peak(point.batch_size, point.peak_allocated_bytes or 0, point.peak_reserved_bytes or 0)
        for point in measured
    ]
    room = DeviceRoom(
        total_bytes=measured[-1].total_bytes or 0,
        others_bytes=max(point.others_bytes or 0 for point in measured),
        resting_bytes=max(point.resting_bytes or 0 for point in measured),
    )
    return advise(peaks, room, band=band)
