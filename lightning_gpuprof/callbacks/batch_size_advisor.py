"""Device memory once a window, and the batch size that would fill it well."""

from collections.abc import Callable
from typing import Any

import torch
from typing_extensions import override

from lightning_gpuprof.analysis.batch_size import (
    BatchSizeAdvice,
    Card,
    Peak,
    accumulation_for,
    advise,
)
from lightning_gpuprof.analysis.memory_growth import RSS_NOTE
from lightning_gpuprof.callbacks._lightning import Callback, LightningModule, Trainer
from lightning_gpuprof.callbacks.console import say
from lightning_gpuprof.callbacks.guard import guarded
from lightning_gpuprof.callbacks.run_output import RunOutput
from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.probes.batch_samples import count_samples
from lightning_gpuprof.probes.memory import (
    MemoryProbe,
    MemoryReading,
    ProcessMemory,
    memory_probe,
)
from lightning_gpuprof.records.schema import Advice, Memory, Note
from lightning_gpuprof.units import size

NOT_MEASURED = "[PROFILE] VRAM: no GPU: not measured"


class BatchSizeAdvisor(Callback):
    """Records device memory once a window and suggests a batch size for a target band of it.

    Peaks come from torch's allocator, per window, without waiting for the device. The first
    steps and validation are left out of them: both allocate what training steps do not. On a
    CPU no device memory is measured, and that is what it says; the process's own memory is
    noted instead, in which a leak shows too.

    Args:
        window: Batches per reading.
        band: Shares of the device's memory, low and high, that the suggestion aims for.
        warmup: First batches whose peaks are left out.
        batch_size: Tells the samples of a batch, where its own tensors do not.
        console: Whether rank 0 shows the VRAM line.
        probe: Gives the memory of a device; tests pass a fake.

    Raises:
        ConfigError: A number makes no sense.
    """

    def __init__(
        self,
        *,
        window: int = 50,
        band: tuple[float, float] = (0.6, 0.8),
        warmup: int = 5,
        batch_size: Callable[[Any], int] | None = None,
        console: bool = True,
        probe: Callable[[torch.device], MemoryProbe | None] = memory_probe,
    ) -> None:
        _check(window, band, warmup)
        self.window = window
        self.band = band
        self.warmup = warmup
        self.console = console
        self._samples_of = batch_size or count_samples
        self._make_probe = probe
        self._output: RunOutput | None = None
        self._probe: MemoryProbe | None = None
        self._process: ProcessMemory | None = None
        self._peaks: list[Peak] = []
        self._batch = 0
        self._in_window = 0
        self._samples = 0
        self._last: BatchSizeAdvice | None = None

    @override
    @guarded
    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Join the run's output."""
        self._output = RunOutput.of(trainer)

    @override
    @guarded
    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Find the device's memory, or say that there is none to measure."""
        self._probe = self._make_probe(trainer.strategy.root_device)
        self._peaks, self._last = [], None
        self._batch = self._in_window = self._samples = 0
        if self._probe is not None:
            self._probe.read()  # the sanity check's peaks are not training's
        elif self._output is not None:
            note = Note(step=0, name="vram-not-measured", message="no GPU: not measured")
            self._output.write(note)
            self._say(NOT_MEASURED)
            self._process = ProcessMemory()

    @override
    @guarded
    def on_train_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
    ) -> None:
        """Note the batch's size; at a window's end read the memory."""
        self._batch += 1
        if self._probe is None:
            if self._batch % self.window == 0:
                self._note_process_memory()
            return
        if self._batch == self.warmup:
            self._probe.read()  # begins new peaks
        if self._batch <= self.warmup:
            return
        self._samples = max(self._samples, self._samples_of(batch) or 0)
        self._in_window += 1
        if self._in_window >= self.window:
            self._end_window(trainer)

    @override
    @guarded
    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Close the window, so that its peak is training's own."""
        if self._in_window:
            self._end_window(trainer)

    @override
    @guarded
    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Begin new peaks: validation's are not training's."""
        if self._probe is not None:
            self._probe.read()

    @override
    @guarded
    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Read the last, shorter window."""
        if self._in_window:
            self._end_window(trainer)

    @override
    @guarded
    def on_exception(
        self, trainer: Trainer, pl_module: LightningModule, exception: BaseException
    ) -> None:
        """Close the run's output."""
        self._release()
        if self._output is not None:
            status = "interrupted" if isinstance(exception, KeyboardInterrupt) else "exception"
            self._output.end(status, error=exception)

    @override
    @guarded
    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Close the run's output."""
        self._release()
        if self._output is not None:
            self._output.end("finished")

    def _note_process_memory(self) -> None:
        used = self._process.read() if self._process is not None else None
        if used is not None and self._output is not None:
            self._output.write(Note(step=self._batch - 1, name=RSS_NOTE, value=used))

    def _release(self) -> None:
        process, self._probe, self._process = self._process, None, None
        if process is not None:
            process.close()

    def _end_window(self, trainer: Trainer) -> None:
        samples, self._samples, self._in_window = self._samples, 0, 0
        reading = self._probe.read() if self._probe is not None else None
        if reading is None or self._output is None:
            return
        self._output.write(_record(reading, step=self._batch - 1, samples=samples or None))
        self._say(vram_line(reading))
        if samples:
            peak = Peak(samples, reading.peak_allocated_bytes, reading.peak_reserved_bytes)
            self._peaks.append(peak)
            self._advise(trainer, reading)
        self._output.flush()

    def _advise(self, trainer: Trainer, reading: MemoryReading) -> None:
        held = reading.total_bytes - reading.free_bytes
        card = Card(
            total_bytes=reading.total_bytes,
            others_bytes=max(0, held - reading.reserved_bytes),
            resting_bytes=reading.allocated_bytes,
        )
        advice = advise(self._peaks, card, band=self.band, alloc_retries=reading.alloc_retries)
        if advice is None or advice == self._last or self._output is None:
            return
        first, self._last = self._last is None, advice
        self._output.write(_advice_record(advice, self._batch - 1, trainer))
        if first:
            self._say(advice_line(advice))

    def _say(self, line: str) -> None:
        if self.console and self._output is not None and self._output.rank == 0:
            say(line)


def vram_line(reading: MemoryReading) -> str:
    """Return the console line of one window.

    >>> gib = 2**30
    >>> vram_line(MemoryReading(gib, 2 * gib, gib, 3 * gib, 4 * gib, 20 * gib, 24 * gib, 0, 0))
    '[PROFILE] VRAM: allocated: 1.00 GiB | reserved: 2.00 GiB | peak: 4.00 GiB | total: 24.0 GiB'
    """
    return (
        f"[PROFILE] VRAM: allocated: {size(reading.allocated_bytes)} | "
        f"reserved: {size(reading.reserved_bytes)} | peak: {size(reading.peak_reserved_bytes)} | "
        f"total: {size(reading.total_bytes)}"
    )


def advice_line(advice: BatchSizeAdvice) -> str:
    """Return the console line of the first suggestion.

    >>> advice_line(BatchSizeAdvice(16, suggested=56, low=47, high=64))
    '[PROFILE] batch size: 16 now, 56 suggested (47 to 64 fill the target band)'
    >>> advice_line(BatchSizeAdvice(16, reason="it does not grow"))
    '[PROFILE] batch size: 16 now, no suggestion: it does not grow'
    """
    if advice.suggested is None:
        return f"[PROFILE] batch size: {advice.batch_size} now, no suggestion: {advice.reason}"
    notes = "".join(f"; {note}" for note in advice.notes)
    return (
        f"[PROFILE] batch size: {advice.batch_size} now, {advice.suggested} suggested "
        f"({advice.low} to {advice.high} fill the target band{notes})"
    )


def _record(reading: MemoryReading, *, step: int, samples: int | None) -> Memory:
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
        samples=samples,
    )


def _advice_record(advice: BatchSizeAdvice, step: int, trainer: Trainer) -> Advice:
    details: dict[str, Any] = {
        "constant_bytes": advice.constant_bytes,
        "per_sample_bytes": advice.per_sample_bytes,
        "notes": list(advice.notes),
    }
    if advice.suggested is not None:
        accumulate = trainer.accumulate_grad_batches
        details["accumulate_grad_batches"] = accumulation_for(
            advice.batch_size, accumulate, advice.suggested
        )
    return Advice(
        step=step,
        batch_size=advice.batch_size,
        suggested_batch_size=advice.suggested,
        low=advice.low,
        high=advice.high,
        reason=advice.reason or "; ".join(advice.notes),
        details={name: value for name, value in details.items() if value is not None},
    )


def _check(window: int, band: tuple[float, float], warmup: int) -> None:
    if window < 1:
        raise ConfigError(
            f"BatchSizeAdvisor(window={window}) would never read the memory. Pass 1 or more."
        )
    if warmup < 0:
        raise ConfigError(f"BatchSizeAdvisor(warmup={warmup}) is negative. Pass 0 or more.")
    if len(band) != 2 or not 0 < band[0] < band[1] <= 1:
        raise ConfigError(
            f"BatchSizeAdvisor(band={band}) is no band of the device's memory. Pass two shares "
            "of 1, low and high, such as (0.6, 0.8)."
        )
