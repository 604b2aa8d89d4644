"""Attributes the device's memory peak in training to batch sizes, without resetting it."""

from collections import deque
from dataclasses import dataclass, replace
from typing import Any

from lightning_gpuprof.memory.advise import BatchSizeAdvice, DeviceRoom, Peak, advise
from lightning_gpuprof.memory.device import MemoryReading
from lightning_gpuprof.memory.trend import growth_per_step
from lightning_gpuprof.records.schema import Memory
from lightning_gpuprof.tensors import tensor_bytes
from lightning_gpuprof.units import size

KEPT_WINDOWS = 64
"""Growth is judged over so many: all their pairs take some 0.1 ms."""


@dataclass
class WindowBatches:
    """Sizes of the batches in one window of training steps; bytes of the largest alone."""

    count: int = 0
    samples: int = 0
    batch_bytes: int = 0
    output_bytes: int = 0

    def add(self, batch: Any, outputs: Any, samples: int) -> None:
        """Note a batch that has run."""
        self.count += 1
        if self.count == 1:
            self.output_bytes = tensor_bytes(outputs)
        if samples and samples >= self.samples:
            before = self.batch_bytes if samples == self.samples else 0
            self.samples, self.batch_bytes = samples, max(before, tensor_bytes(batch))


class TrainingPeaks:
    """Attributes rises of torch's peak to batch sizes, and judges the batch size by them.

    torch's peak is since the process began and is never reset here, so a window's own peak is
    known only where it exceeds every earlier one; then it belongs to the window's largest batch.
    `before` is the reading at the start of training; None before the device's first use.
    """

    def __init__(self, before: MemoryReading | None) -> None:
        self.samples = 0
        self._before = before
        self._top_bytes = before.peak_allocated_bytes if before is not None else 0
        self._own = False
        """This training or its validation raised the peak."""
        self._peaks: dict[int, Peak] = {}
        self._used: deque[tuple[int, int]] = deque(maxlen=KEPT_WINDOWS)
        self._others_bytes = 0
        self._fullest = (0, 0)
        """Allocated and split bytes at the end of a forward pass."""
        self._validation_bytes: int | None = None
        self._known_bytes: int | None = None

    def of_this_training(self, reading: MemoryReading) -> MemoryReading:
        """Return the reading with retries and OOMs counted from the start of training."""
        if self._before is None:
            return reading
        return replace(
            reading,
            alloc_retries=reading.alloc_retries - self._before.alloc_retries,
            ooms=reading.ooms - self._before.ooms,
        )

    def add_forward(self, reading: MemoryReading) -> None:
        """Note a reading at the end of a forward pass; the fullest counts."""
        self._fullest = max(self._fullest, (reading.allocated_bytes, reading.split_bytes))

    def add_validation(self, reading: MemoryReading) -> None:
        """Note the peak at the end of validation."""
        if self._raises(reading):
            self._validation_bytes = reading.peak_allocated_bytes

    def add(
        self, reading: MemoryReading, batches: WindowBatches, *, batch: int, kinds: dict[str, int]
    ) -> Memory:
        """Note a window of training that ends with a batch (by number), and return its record.

        `kinds` are the bytes of parameters, gradients and optimizer state.
        """
        self._used.append((batch, reading.allocated_bytes))
        self._others_bytes = max(self._others_bytes, reading.others_bytes)
        self.samples = max(self.samples, batches.samples)
        if batches.samples:
            # The next batch may be there.
            growing = 2 * (batches.batch_bytes + batches.output_bytes)
            constant = max(sum(kinds.values()), reading.allocated_bytes - growing)
            self._known_bytes = constant or None
        raised = self._raises(reading)
        if raised:
            self._validation_bytes = None
        samples = batches.samples or self.samples
        if samples and raised:
            peak = Peak(samples, reading.peak_allocated_bytes, reading.peak_reserved_bytes)
            self._peaks[samples] = peak
        recorded = {name: value for name, value in vars(reading).items() if name != "split_bytes"}
        return Memory(
            step=batch - 1,
            **recorded,
            samples=batches.samples if raised and batches.samples else None,
            peak_from_before=not self._own,
            kind_bytes=_at_peak(reading, kinds) if self._own else {},
        )

    def advise(self, reading: MemoryReading, band: tuple[float, float]) -> BatchSizeAdvice | None:
        """Return the advice as of a reading; None before any batch was counted."""
        if not self._peaks:
            return self._without_a_peak()
        growth = growth_per_step(list(self._used)[1:])  # the first creates optimizer state
        room = DeviceRoom(
            total_bytes=reading.total_bytes,
            others_bytes=self._others_bytes,
            resting_bytes=reading.allocated_bytes,
            known_bytes=self._known_bytes,
            growth_bytes_per_step=0.0 if growth is None else growth[0],
            alloc_retries=reading.alloc_retries,
            validation_peak_bytes=self._validation_bytes,
        )
        peaks = [replace(peak, split_bytes=self._fullest[1]) for peak in self._peaks.values()]
        return advise(peaks, room, band=band)

    def _without_a_peak(self) -> BatchSizeAdvice | None:
        if not self.samples:
            return None
        reason = (
            f"the peak since the process began, {size(self._top_bytes)}, was reached before this "
            "training, whose own is lower; call torch.cuda.reset_peak_memory_stats() before fit"
        )
        return BatchSizeAdvice(self.samples, reason=reason)

    def _raises(self, reading: MemoryReading) -> bool:
        raised = reading.peak_allocated_bytes > self._top_bytes
        self._own |= raised
        self._top_bytes = max(self._top_bytes, reading.peak_allocated_bytes)
        return raised


def _at_peak(reading: MemoryReading, kinds: dict[str, int]) -> dict[str, int]:
    """Split the peak: memory that rests between steps by kind, and what a step adds to it."""
    other = max(0, reading.allocated_bytes - sum(kinds.values()))
    added = max(0, reading.peak_allocated_bytes - reading.allocated_bytes)
    return {**kinds, "activations": added, "other": other}
