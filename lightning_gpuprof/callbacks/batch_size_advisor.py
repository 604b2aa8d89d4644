"""Records device memory once per window, and suggests the batch size that would fill it well."""

from collections.abc import Callable
from typing import Any

import torch
from typing_extensions import override

from lightning_gpuprof.adapters.callback_hooks import BATCH_END, BEFORE_BACKWARD
from lightning_gpuprof.adapters.lightning import LightningModule, Trainer
from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.memory.batch_size import BatchSizeAdvice
from lightning_gpuprof.memory.batch_size_lines import advice_line, advice_record, vram_line
from lightning_gpuprof.memory.device import CudaMemory, memory_probe, resident_bytes
from lightning_gpuprof.memory.kinds import kind_bytes
from lightning_gpuprof.memory.peaks import TrainingPeaks, WindowBatches
from lightning_gpuprof.records.facts import ProcessMemory
from lightning_gpuprof.records.schema import Note
from lightning_gpuprof.runtime.guard import guarded
from lightning_gpuprof.runtime.hooks import HookDispatcher, HookSet, dispatcher_in
from lightning_gpuprof.runtime.host_memory import available_bytes
from lightning_gpuprof.runtime.recording import RecordingCallback
from lightning_gpuprof.tensors import count_samples

FORWARDS = 4
"""The pool's split bytes are read in this many forward passes of a window."""
DENSE, SPARSE_NS = 20, 1_000_000_000
"""After this many windows, this callback no longer counts the batches itself, and readings are at
least this far apart, since a window costs the host of an H100 about 2 ms."""


class BatchSizeAdvisor(RecordingCallback):
    """Records device memory once per window, and suggests a batch size for a target band of it.

    Peaks are torch's own, since the process began. Nothing is reset, and the device is not waited
    for. A peak belongs to the batches of a window if it exceeds all earlier peaks. If training
    never exceeds them, no batch size is suggested. Parameters, gradients and optimizer state are
    measured once. If memory between steps grows, the suggestion is withdrawn. The memory of
    the process is recorded too, which shows a leak on the host.

    Every rank makes a suggestion for its own device, and readers take the smallest.

    Costs: on a GPU about 0.1 ms per reading, five in a window; for the memory of the process 20 us
        per window, and 0.1 ms from the 20th on.
    Touches: nothing. It reads the allocator's counters, and never resets its peaks.
    When: the end of each of the first 20 windows, and some of their forward passes; later the end
        of a window, at most once a second.
    Switch: batch_size=False

    Args:
        window: Batches per reading.
        band: The lower and the upper share of the device's memory that the suggestion aims for.
        batch_size: Returns the number of samples in a batch, if its tensors do not show it.
        console: Whether rank 0 shows the VRAM line.
        probe: Returns the reader of a device's memory; tests pass a fake.

    Raises:
        ConfigError: `window` or `band` cannot work.
    """

    _of_a_run = ("_dispatcher", "_trainer", "_probe", "_peaks", "_batches")

    def __init__(
        self,
        *,
        window: int = 50,
        band: tuple[float, float] = (0.6, 0.8),
        batch_size: Callable[[Any], int] | None = None,
        console: bool = True,
        probe: Callable[[torch.device], CudaMemory | None] = memory_probe,
    ) -> None:
        _check(window, band)
        super().__init__()
        self.window = window
        self.band = band
        self.console = console
        self._samples_of = batch_size or count_samples
        self._make_probe = probe
        self._dispatcher: HookDispatcher | None = None
        self._counting = HookSet({BATCH_END: self._batch_ended})
        self._forward = HookSet({BEFORE_BACKWARD: self._forward_ended})
        self._begin(None, None)

    def _begin(self, trainer: Trainer | None, probe: CudaMemory | None) -> None:
        self._trainer, self._probe = trainer, probe
        self._kinds: dict[str, int] = {}
        before = probe.read() if probe is not None else None
        self._peaks: TrainingPeaks | None = TrainingPeaks(before) if probe is not None else None
        self._batches: WindowBatches | None = None
        self._counted = self._offset = self._windows = self._next_read_ns = 0
        self._dispatcher_counts = False
        self._last: BatchSizeAdvice | None = None
        self._shown_bytes = 0

    @override
    @guarded
    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        device = trainer.strategy.root_device
        self._begin(trainer, self._make_probe(device))
        self._dispatcher = dispatcher_in(trainer, self)
        if self._probe is not None:
            self._counting.add(self._dispatcher)
        elif self._context is not None:
            why = "an allocator without counters" if device.type == "cuda" else "no GPU"
            message = f"not measured ({why})"
            self._context.write(Note(step=0, name="vram-not-measured", message=message))
            if device.type != "cpu":
                self._say(f"[PROFILE] VRAM: {message}")
            self._let_dispatcher_count(self._dispatcher)
        self._batches = WindowBatches()

    @guarded
    def _batch_ended(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: Any,
        batch: Any,
        *_: Any,
    ) -> None:
        if self._batches is None or self._dispatcher is None:
            return
        self._batches.add(batch, outputs, self._samples_of(batch) or 0)
        if self._batches.count >= self.window:
            self._end_window()
        elif self._batches.count == 1:
            self._forward.add(self._dispatcher)
        elif self._batches.count > FORWARDS:
            self._forward.drop()

    @guarded
    def _forward_ended(self, *_: Any) -> None:
        """Read the part of the pool that cannot be released."""
        reading = self._probe.read() if self._probe is not None else None
        if reading is not None and self._peaks is not None:
            self._peaks.add_forward(reading)

    @guarded
    def _window_due(self) -> None:
        """End a window whose batches the dispatcher has counted."""
        if self._context is not None and self._context.now() >= self._next_read_ns:
            self._end_window()

    @override
    @guarded
    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """End the window, so that its peak is not validation's."""
        if self._probe is not None:
            self._end_window()

    @override
    @guarded
    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Read the memory for the peak of validation."""
        reading = self._probe.read() if self._probe is not None else None
        if reading is not None and self._peaks is not None and not trainer.sanity_checking:
            self._peaks.add_validation(reading)

    @override
    @guarded
    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._end_window(last=True)

    @override
    def _release(self) -> None:
        self._counting.drop()
        self._forward.drop()
        if self._dispatcher is not None:
            self._dispatcher.periodic.drop(self._window_due)
        self._trainer = self._probe = self._peaks = self._batches = self._dispatcher = None

    def _end_window(self, *, last: bool = False) -> None:
        """Read the memory, record it and advise."""
        context, window, dispatcher = self._context, self._batches, self._dispatcher
        if context is None or window is None or dispatcher is None:
            return
        batch = self._counted + window.count
        if self._dispatcher_counts:
            batch = self._offset + dispatcher.periodic.batches
        if batch == self._counted:
            return
        self._counted = batch
        self._windows += 1
        self._forward.drop()
        if self._probe is not None:
            self._read(self._probe, window)
        if (used := resident_bytes()) is not None:
            left = available_bytes() if last or self._windows >= DENSE else None
            context.write(ProcessMemory(batch - 1, used, left))
        if self._probe is not None:
            context.flush()
        if self._windows >= DENSE:
            self._next_read_ns = context.now() + SPARSE_NS
            self._let_dispatcher_count(dispatcher)
        self._batches = WindowBatches()

    def _let_dispatcher_count(self, dispatcher: HookDispatcher) -> None:
        """Let the dispatcher count the batches, instead of this callback."""
        if not self._dispatcher_counts:
            self._dispatcher_counts = True
            self._counting.drop()
            calls = dispatcher.periodic
            calls.add(self._window_due, self.window)
            self._offset = self._counted - calls.batches

    def _read(self, probe: CudaMemory, window: WindowBatches) -> None:
        reading, peaks, trainer = probe.read(), self._peaks, self._trainer
        if reading is None or peaks is None or trainer is None:
            return
        reading = peaks.of_this_training(reading)
        if not self._kinds:
            device = trainer.strategy.root_device
            self._kinds = kind_bytes(trainer.lightning_module, trainer.optimizers, device)
        assert self._context is not None
        self._context.write(peaks.add(reading, window, batch=self._counted, kinds=self._kinds))
        if reading.peak_reserved_bytes > self._shown_bytes:  # whenever there is a new peak
            self._say(vram_line(reading))
            self._shown_bytes = reading.peak_reserved_bytes
        advice = peaks.advise(reading, self.band) if self._context.stage == "fit" else None
        if advice is not None and advice != self._last:
            self._suggest(advice, trainer)

    def _suggest(self, advice: BatchSizeAdvice, trainer: Trainer) -> None:
        """Record a suggestion. Show only the first, and a withdrawal of it."""
        assert self._context is not None
        before, self._last = self._last, advice
        record = advice_record(
            advice,
            step=self._counted - 1,
            accumulate=trainer.accumulate_grad_batches,
            world_size=trainer.world_size,
        )
        self._context.write(record)
        withdrawn = advice.suggested is None and before is not None and before.suggested is not None
        if before is None or withdrawn:
            self._say(advice_line(advice))

    def _say(self, line: str) -> None:
        if self.console and self._context is not None:
            self._context.inform(line)


def _check(window: int, band: tuple[float, float]) -> None:
    is_pair = isinstance(band, list | tuple) and len(band) == 2
    if window < 1 or not is_pair or not 0 < band[0] < band[1] <= 1:
        raise ConfigError(
            f"BatchSizeAdvisor(window={window}, band={band}) cannot work. Pass a window of 1 batch "
            "or more, and two shares of the device's memory, low and high, such as (0.6, 0.8)."
        )
