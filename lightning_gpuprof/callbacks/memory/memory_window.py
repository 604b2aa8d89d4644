"""What is known of the device's memory in one window of training steps."""

from dataclasses import replace
from typing import Any

from lightning_gpuprof.analysis.memory.memory_line import Peak
from lightning_gpuprof.probes.batch_size.batch_samples import tensor_bytes
from lightning_gpuprof.probes.memory.memory import MemoryProbe, MemoryReading
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.records.schema import Memory


class MemoryWindow:
    """Gathers the sizes of batches, and the peak of each phase in a step that is looked at.

    Reading a peak begins a new one, so the window's own is kept here as the highest read.
    """

    def __init__(self, probe: MemoryProbe) -> None:
        self.batches = 0
        self.samples = 0
        self._most = self._least = self._output_bytes = 0
        self._probe = probe
        self._phase: Phase | None = Phase.FORWARD
        self._phase_bytes: dict[str, int] = {}
        self._allocated = self._reserved = self._split = 0

    def add(self, batch: Any, outputs: Any, samples: int) -> None:
        """Note a batch that has run."""
        self.batches += 1
        if self.batches == 1:
            self._output_bytes = tensor_bytes(outputs)
        if samples < self.samples or not samples:
            return
        size = tensor_bytes(batch)
        if samples > self.samples:
            self.samples, self._most, self._least = samples, size, size
        else:
            self._most, self._least = max(self._most, size), min(self._least, size)

    def enter(self, phase: Phase) -> None:
        """Begin a phase of the step that is looked at; the peak so far was the last one's.

        An optimizer's step that another forward follows, without a border, is not told.
        """
        blurred = phase is Phase.BACKWARD and self._phase is Phase.OPTIMIZER_STEP
        self._mark(None if blurred else self._phase)
        self._phase = phase

    def leave(self) -> None:
        """End the step that is looked at."""
        self._mark(self._phase)
        self._phase = None

    def close(self) -> MemoryReading | None:
        """Return the memory now with the window's peaks, and begin new ones."""
        reading = self._probe.read()
        if reading is None:
            return None
        return replace(
            reading,
            peak_allocated_bytes=max(reading.peak_allocated_bytes, self._allocated),
            peak_reserved_bytes=max(reading.peak_reserved_bytes, self._reserved),
        )

    def peak(self, reading: MemoryReading) -> Peak:
        """Return what the batch size is judged by."""
        return Peak(
            samples=self.samples,
            peak_allocated_bytes=reading.peak_allocated_bytes,
            peak_reserved_bytes=reading.peak_reserved_bytes,
            batch_bytes=self._most,
            least_batch_bytes=self._least,
            split_bytes=self._split,
        )

    def constant_bytes(self, reading: MemoryReading, kinds: dict[str, int]) -> int | None:
        """Return what is known not to grow with the batch, or None where nothing is.

        At least the kinds measured; and all that rests between steps, such as a replay buffer,
        less twice the batch (the next one may have been fetched) and the step's outputs.
        """
        growing = 2 * (self._most + self._output_bytes)
        return max(sum(kinds.values()), reading.allocated_bytes - growing) or None

    def record(self, reading: MemoryReading, *, step: int, kinds: dict[str, int]) -> Memory:
        """Return the window's record; `kinds` are the bytes that rest between steps, measured."""
        return Memory(
            step=step,
            allocated_bytes=reading.allocated_bytes,
            reserved_bytes=reading.reserved_bytes,
            peak_allocated_bytes=reading.peak_allocated_bytes,
            peak_reserved_bytes=reading.peak_reserved_bytes,
            total_bytes=reading.total_bytes,
            free_bytes=reading.free_bytes,
            active_bytes=reading.active_bytes,
            alloc_retries=reading.alloc_retries,
            ooms=reading.ooms,
            samples=self.samples or None,
            phase_peak_bytes=self._phase_bytes,
            kind_bytes=_at_peak(reading, kinds) if kinds else {},
        )

    def _mark(self, phase: Phase | None) -> None:
        read = self._probe.peaks()
        if read is None:
            return
        self._allocated = max(self._allocated, read.allocated_bytes)
        self._reserved = max(self._reserved, read.reserved_bytes)
        if phase is Phase.FORWARD:  # when activations are there, as near the peak as hooks are
            self._split = max(self._split, read.split_bytes)
        if phase is not None:
            known = self._phase_bytes.get(phase.value, 0)
            self._phase_bytes[phase.value] = max(known, read.allocated_bytes)


def _at_peak(reading: MemoryReading, kinds: dict[str, int]) -> dict[str, int]:
    """Split the peak: what rests between steps by kind, and what the step added to it."""
    other = max(0, reading.allocated_bytes - sum(kinds.values()))
    added = max(0, reading.peak_allocated_bytes - reading.allocated_bytes)
    return {**kinds, "activations": added, "other": other}
