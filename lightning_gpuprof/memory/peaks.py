"""Attributes the memory peaks of training to batch sizes, without resetting torch's counters."""

from collections import deque
from dataclasses import dataclass, replace
from typing import Any

from lightning_gpuprof.memory.batch_size import (
    BatchSizeAdvice,
    DeviceRoom,
    Peak,
    suggest_batch_size,
)
from lightning_gpuprof.memory.device import MemoryReading
from lightning_gpuprof.memory.trend import growth_per_step
from lightning_gpuprof.records.schema import Memory
from lightning_gpuprof.tensors import tensor_bytes
from lightning_gpuprof.units import size

MAX_WINDOWS = 64
"""Growth is judged by the last windows, up to this number. Comparing all their pairs takes 0.1
ms."""


@dataclass
class WindowBatches:
    """The number of batches in a window of training steps, and the size of the largest batch."""

    count: int = 0
    samples: int = 0
    batch_bytes: int = 0
    output_bytes: int = 0

    def add(self, batch: Any, outputs: Any, samples: int) -> None:
        """Count a batch that has run."""
        self.count += 1
        if self.count == 1:
            self.output_bytes = tensor_bytes(outputs)
        if samples and samples >= self.samples:
            same_size_bytes = self.batch_bytes if samples == self.samples else 0
            self.samples = samples
            self.batch_bytes = max(same_size_bytes, tensor_bytes(batch))


class TrainingPeaks:
    """Attributes every new peak of memory to a batch size, and suggests a batch size by them.

    Torch counts the peak since the process began, and it is never reset here. Therefore the peak of
    a window is known only if it exceeds all earlier peaks. It then belongs to the largest batch of
    the window.

    Args:
        before: The reading at the start of training; None before the first use of the device.
    """

    def __init__(self, before: MemoryReading | None) -> None:
        self.samples = 0
        """The largest batch so far."""
        self._before = before
        self._highest_bytes = before.peak_allocated_bytes if before is not None else 0
        self._has_raised_peak = False
        """Whether this training or its validation has raised the peak."""
        self._peaks: dict[int, Peak] = {}
        self._allocated: deque[tuple[int, int]] = deque(maxlen=MAX_WINDOWS)
        """For each window the number of its last batch, and the bytes allocated after it."""
        self._others_bytes = 0
        self._fullest_forward = (0, 0)
        """Allocated and split bytes at the end of the forward pass that allocated most."""
        self._validation_bytes: int | None = None
        self._constant_bytes: int | None = None

    def of_this_training(self, reading: MemoryReading) -> MemoryReading:
        """Return a reading whose retries and OOMs count from the start of training."""
        if self._before is None:
            return reading
        return replace(
            reading,
            alloc_retries=reading.alloc_retries - self._before.alloc_retries,
            ooms=reading.ooms - self._before.ooms,
        )

    def add_forward(self, reading: MemoryReading) -> None:
        """Add a reading at the end of a forward pass."""
        forward = (reading.allocated_bytes, reading.split_bytes)
        self._fullest_forward = max(self._fullest_forward, forward)

    def add_validation(self, reading: MemoryReading) -> None:
        """Add a reading at the end of validation."""
        if self._is_new_peak(reading):
            self._validation_bytes = reading.peak_allocated_bytes

    def add(
        self, reading: MemoryReading, batches: WindowBatches, *, batch: int, kinds: dict[str, int]
    ) -> Memory:
        """Add the reading at the end of a window of training, and return the window's record.

        Args:
            reading: The memory at the end of the window.
            batches: The batches of the window.
            batch: The number of batches that have been trained so far.
            kinds: The bytes of parameters, gradients and optimizer state.
        """
        self._allocated.append((batch, reading.allocated_bytes))
        self._others_bytes = max(self._others_bytes, reading.others_bytes)
        self.samples = max(self.samples, batches.samples)
        if batches.samples:
            # Twice, because the next batch may have been loaded already.
            growing = 2 * (batches.batch_bytes + batches.output_bytes)
            constant = max(sum(kinds.values()), reading.allocated_bytes - growing)
            self._constant_bytes = constant or None
        is_new_peak = self._is_new_peak(reading)
        if is_new_peak:
            self._validation_bytes = None
        samples = batches.samples or self.samples
        if samples and is_new_peak:
            peak = Peak(samples, reading.peak_allocated_bytes, reading.peak_reserved_bytes)
            self._peaks[samples] = peak
        recorded = {name: value for name, value in vars(reading).items() if name != "split_bytes"}
        return Memory(
            step=batch - 1,
            **recorded,
            samples=batches.samples if is_new_peak and batches.samples else None,
            peak_from_before=not self._has_raised_peak,
            kind_bytes=_bytes_at_peak(reading, kinds) if self._has_raised_peak else {},
        )

    def advise(self, reading: MemoryReading, band: tuple[float, float]) -> BatchSizeAdvice | None:
        """Return the advice as of a reading; None before any batch has been counted."""
        if not self._peaks:
            return self._advice_without_peak()
        # Not from the first window on, in which the optimizer creates its state.
        growth = growth_per_step(list(self._allocated)[1:])
        room = DeviceRoom(
            total_bytes=reading.total_bytes,
            others_bytes=self._others_bytes,
            resting_bytes=reading.allocated_bytes,
            constant_bytes=self._constant_bytes,
            growth_bytes_per_step=0.0 if growth is None else growth[0],
            alloc_retries=reading.alloc_retries,
            validation_peak_bytes=self._validation_bytes,
        )
        _, split_bytes = self._fullest_forward
        peaks = [replace(peak, split_bytes=split_bytes) for peak in self._peaks.values()]
        return suggest_batch_size(peaks, room, band=band)

    def _advice_without_peak(self) -> BatchSizeAdvice | None:
        if not self.samples:
            return None
        reason = (
            f"the highest peak of the process, {size(self._highest_bytes)}, was reached before "
            "this training, whose own peak is lower and therefore unknown; call "
            "torch.cuda.reset_peak_memory_stats() before fit"
        )
        return BatchSizeAdvice(self.samples, reason=reason)

    def _is_new_peak(self, reading: MemoryReading) -> bool:
        is_new = reading.peak_allocated_bytes > self._highest_bytes
        self._has_raised_peak |= is_new
        self._highest_bytes = max(self._highest_bytes, reading.peak_allocated_bytes)
        return is_new


def _bytes_at_peak(reading: MemoryReading, kinds: dict[str, int]) -> dict[str, int]:
    """Return what fills the memory at its peak, by kind.

    What is allocated between steps is divided by kind. What a step adds counts as activations.
    """
    other = max(0, reading.allocated_bytes - sum(kinds.values()))
    added = max(0, reading.peak_allocated_bytes - reading.allocated_bytes)
    return {**kinds, "activations": added, "other": other}
