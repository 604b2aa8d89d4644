"""Device memory once a window, and the batch size that would fill it well."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from typing_extensions import override

from lightning_gpuprof.adapters.dynamo import Compilations
from lightning_gpuprof.analysis.memory.batch_size import (
    BatchSizeAdvice,
    Circumstances,
    DeviceRoom,
    advise,
)
from lightning_gpuprof.analysis.memory.memory_growth import growth_per_step
from lightning_gpuprof.analysis.memory.memory_line import Peak, says_more
from lightning_gpuprof.callbacks._lightning import Callback, LightningModule, Trainer
from lightning_gpuprof.callbacks.dispatch import BatchCalls, Hooks, called_by_trainer
from lightning_gpuprof.callbacks.guard import guarded
from lightning_gpuprof.callbacks.memory.advice_text import (
    advice_line,
    advice_record,
    not_measured,
    vram_line,
)
from lightning_gpuprof.callbacks.memory.memory_notes import MemoryNotes
from lightning_gpuprof.callbacks.memory.memory_window import MemoryWindow
from lightning_gpuprof.callbacks.memory.thinned import Thinned
from lightning_gpuprof.callbacks.output.console import say
from lightning_gpuprof.callbacks.recording import RecordingCallback
from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.probes.batch_size.batch_samples import count_samples
from lightning_gpuprof.probes.memory.memory import (
    MemoryProbe,
    MemoryReading,
    memory_probe,
)
from lightning_gpuprof.probes.memory.memory_kinds import kind_bytes
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.records.schema import Note

SHOWN_EVERY_NS = 5_000_000_000
"""Between two lines on the terminal that say the same: a window may be a twentieth of a second."""
DENSE, SHORT_NS, REST = 10, 1_000_000_000, 9
"""So many windows are watched, which is more than it takes to see memory grow. Later each one that
took less time than this is followed by a rest as long as so many: to look at each batch, to read
and to write takes the host of an H100 2 ms a window, more than a callback may of so short a one.
One that validation cut short is judged by its pace."""
COMPILED_ALWAYS = (
    "something was compiled in every window of steps: train longer, or give inputs fixed shapes"
)
_OF_A_RUN = ("_host", "_notes", "_probe", "_now")


class BatchSizeAdvisor(RecordingCallback):
    """Records device memory once a window and suggests a batch size for a target band of it.

    Peaks come from torch's allocator, per window, without waiting for the device; in the first
    step of each window they are read at the ends of forward and backward too. What a
    compilation, the first steps and validation allocate is left out. Parameters, gradients and
    optimizer state are measured once. Where memory between steps grows nothing is suggested, and
    what was suggested before is withdrawn. Where steps are short, batches are looked at in the
    first ten windows and in one of ten later; of the others together there is the peak. On a CPU
    no device memory is measured, and that is what it says; the process's own memory is noted
    instead, in which a leak shows too.

    Each rank suggests for its own device: readers take the smallest.

    Costs: 0.1 ms per window of steps.
    Touches: reads the allocator's counters.
    When: the end of each window, later of one in ten.
    Switch: batch_size=False

    Args:
        window: Batches per reading.
        band: Shares of the device's memory, low and high, that the suggestion aims for.
        warmup: First batches whose peaks are left out.
        batch_size: Tells the samples of a batch, where its own tensors do not.
        console: Whether rank 0 shows the VRAM line.
        probe: Gives the memory of a device; tests pass a fake.
        compiles: Tells whether something was compiled; tests pass a fake.

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
        compiles: Callable[[], Compilations] = Compilations,
    ) -> None:
        _check(window, band, warmup)
        super().__init__()
        self.window = window
        self.band = band
        self.warmup = warmup
        self.console = console
        self._samples_of = batch_size or count_samples
        self._make_probe = probe
        self._make_compiles = compiles
        self._host: Callback | None = None
        self._notes: MemoryNotes | None = None
        self._counting = Hooks({"on_train_batch_end": self._batch_ended})
        self._resting = Hooks({"on_train_batch_end": self._rest_ended}, every=REST * window)
        self._looking = Hooks(
            {
                "on_before_backward": partial(self._enter, Phase.BACKWARD),
                "on_after_backward": partial(self._enter, Phase.FORWARD),
                "on_before_optimizer_step": partial(self._enter, Phase.OPTIMIZER_STEP),
            }
        )
        self._begin(None)

    def _begin(self, probe: MemoryProbe | None) -> None:
        self._probe = probe
        self._now = MemoryWindow(probe) if probe is not None else None
        self._compiles = self._make_compiles()
        self._kinds: dict[str, int] = {}
        self._peaks: list[Peak] = []
        self._used = Thinned[tuple[int, int]]()
        """Steps, and the bytes in use behind them."""
        self._others: set[int] = set()
        """The least and the most of it."""
        self._compiled_windows = 0
        self._validation_peak: int | None = None
        self._graphs: bool | None = None
        self._batch = self._windows = self._window_begun_ns = self._rested_from = 0
        self._samples = 0
        self._known_bytes: int | None = None
        """Of the last window that was watched."""
        self._retries_before = self._ooms_before = 0
        self._rests = False
        self._last: BatchSizeAdvice | None = None
        self._shown_bytes = self._next_shown_ns = 0

    @override
    @guarded
    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Find the device's memory, or say that there is none to measure."""
        self._begin(self._make_probe(trainer.strategy.root_device))
        self._host = called_by_trainer(trainer, self)
        if self._probe is not None:
            self._counting.add(self._host)
            before = self._probe.read()  # the sanity check's peaks are not training's
            if before is not None:
                self._retries_before, self._ooms_before = before.alloc_retries, before.ooms
            if self.warmup == 0:
                self._new_window()
        elif self._output is not None:
            message = not_measured(trainer.strategy.root_device.type)
            self._output.write(Note(step=0, name="vram-not-measured", message=message))
            self._say(f"[PROFILE] VRAM: {message}")
            self._notes = MemoryNotes(self._host, self._output, self.window)

    @guarded
    def _batch_ended(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
    ) -> None:
        """Note the batch's size; at a window's end read the memory."""
        self._batch += 1
        if self._now is None or self._probe is None:
            return
        if self._looking.drop():
            self._now.leave()
        if self._batch <= self.warmup:
            if self._batch == self.warmup:
                self._compiles.compiled_since()
                self._probe.read()  # begins new peaks
                self._new_window()
            return
        self._now.add(batch, outputs, self._samples_of(batch) or 0)
        if self._now.batches >= self.window:
            self._end_window(trainer)

    def _rest_if_short(self, took_ns: int, batches: int) -> None:
        """Look at no batch for a while, if so many took less than a short window's do."""
        self._windows += 1
        short = took_ns * self.window < SHORT_NS * batches
        if self._windows >= DENSE and short and self._host is not None:
            self._rests = True
            self._counting.drop()
            self._resting.add(self._host)
            self._rested_from = BatchCalls.of(self._host).batches

    @guarded
    def _rest_ended(self, trainer: Trainer, *_: Any) -> None:
        """Note the highest peak of the batches that were not looked at, and look again."""
        self._end_window(trainer)
        self._resting.drop()
        self._rests = False
        if self._host is not None:
            self._counting.add(self._host)
        self._new_window()

    @override
    @guarded
    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Close the window, so that its peak is training's own."""
        self._end_window(trainer)

    @override
    @guarded
    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Begin new peaks: validation's are not training's."""
        reading = self._probe.read() if self._probe is not None else None
        if reading is not None and not trainer.sanity_checking:
            seen = self._validation_peak or 0
            self._validation_peak = max(seen, reading.peak_allocated_bytes)
        if self._output is not None:
            self._window_begun_ns = self._output.now()

    @override
    @guarded
    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Read the last, shorter window."""
        self._end_window(trainer)
        if self._compiled_windows and not self._peaks:
            self._tell(BatchSizeAdvice(self._samples, reason=COMPILED_ALWAYS), trainer)

    @guarded
    def _enter(self, phase: Phase, *_: Any) -> None:
        if self._now is not None:
            self._now.enter(phase)

    def _new_window(self) -> None:
        """Begin a window, whose first step is looked at phase by phase."""
        if self._probe is None or self._output is None:
            return
        self._now = MemoryWindow(self._probe)
        self._window_begun_ns = self._output.now()
        if self._host is not None and not self._rests:
            self._looking.add(self._host)

    def __getstate__(self) -> dict[str, Any]:
        """Return what a copy is made of; one that is made in training is in no run."""
        return self.__dict__ | dict.fromkeys(_OF_A_RUN)

    @override
    def _release(self) -> None:
        for hooks in (self._counting, self._looking, self._resting):
            hooks.drop()
        notes, self._notes = self._notes, None
        self._probe = self._now = self._host = None
        if notes is not None:
            notes.close()

    def _end_window(self, trainer: Trainer) -> None:
        window, output = self._now, self._output
        if window is None or output is None:
            return
        rested, batches = self._rests, window.batches
        if rested and self._host is not None:  # counted by who calls us at its end
            batches = BatchCalls.of(self._host).batches - self._rested_from
            self._rested_from += batches
            self._batch += batches
        if not batches:
            return
        took_ns = output.now() - self._window_begun_ns
        self._looking.drop()
        reading = window.close()
        if reading is not None:
            # The allocator counts over the whole process: what was before is not of this training.
            counted = reading.alloc_retries - self._retries_before, reading.ooms - self._ooms_before
            reading = replace(reading, alloc_retries=counted[0], ooms=counted[1])
            self._write(window, reading, trainer)
            output.flush()
        if not rested:
            self._rest_if_short(took_ns, batches)
        self._new_window()

    def _write(self, window: MemoryWindow, reading: MemoryReading, trainer: Trainer) -> None:
        if not self._kinds:
            device = trainer.strategy.root_device
            self._kinds = kind_bytes(trainer.lightning_module, trainer.optimizers, device)
        if self._output is not None:
            record = window.record(reading, step=self._batch - 1, kinds=self._kinds)
            self._output.write(record)
        self._used.add((self._batch, reading.allocated_bytes))
        self._show(reading)
        held = reading.total_bytes - reading.free_bytes
        others = self._others | {max(0, held - reading.reserved_bytes)}
        self._others = {min(others), max(others)}
        self._samples = max(self._samples, window.samples)
        if self._compiles.compiled_since():
            self._compiled_windows += 1
            return
        if window.samples:
            peak = window.peak(reading)
            self._known_bytes = window.constant_bytes(reading, self._kinds)
        elif self._peaks:
            # Of batches that nobody looked at: if higher, taken for the largest seen. A lower one
            # may be of smaller batches, and says nothing.
            top = max(self._peaks, key=lambda peak: (peak.samples, peak.peak_allocated_bytes))
            peak = replace(
                top,
                peak_allocated_bytes=max(top.peak_allocated_bytes, reading.peak_allocated_bytes),
                peak_reserved_bytes=max(top.peak_reserved_bytes, reading.peak_reserved_bytes),
            )
        else:
            return
        if says_more(peak, self._peaks):
            self._peaks.append(peak)
        self._advise(reading, trainer)

    def _show(self, reading: MemoryReading) -> None:
        """Show the window's line: of short windows now and then, and of each whose peak is new."""
        if self._output is None:
            return
        now, peak = self._output.now(), reading.peak_reserved_bytes
        if peak > self._shown_bytes or now >= self._next_shown_ns:
            self._say(vram_line(reading))
            self._next_shown_ns = now + SHOWN_EVERY_NS
            self._shown_bytes = max(self._shown_bytes, peak)

    def _advise(self, reading: MemoryReading, trainer: Trainer) -> None:
        room = DeviceRoom(
            total_bytes=reading.total_bytes,
            others_bytes=max(self._others),
            least_others_bytes=min(self._others),
            resting_bytes=reading.allocated_bytes,
            known_bytes=self._known_bytes,
        )
        # In the first window optimizer state and caches come to be.
        growth = growth_per_step(self._used.kept[1:])
        seen = Circumstances(
            growth_bytes_per_step=0.0 if growth is None else growth[0],
            alloc_retries=reading.alloc_retries,
            # Once is enough: graphs are captured in the first steps.
            cuda_graphs=self._has_graphs(),
            compiled_windows=self._compiled_windows,
            validation_peak_bytes=self._validation_peak,
        )
        advice = advise(self._peaks, room, band=self.band, seen=seen)
        if advice is not None and advice != self._last:
            self._tell(advice, trainer)

    def _has_graphs(self) -> bool:
        if self._graphs is None and self._probe is not None:
            self._graphs = self._probe.graph_pools()
        return bool(self._graphs)

    def _tell(self, advice: BatchSizeAdvice, trainer: Trainer) -> None:
        if self._output is None:
            return
        before, self._last = self._last, advice
        self._output.write(advice_record(advice, self._batch - 1, trainer))
        withdrawn = advice.suggested is None and before is not None and before.suggested is not None
        if before is None or withdrawn:
            self._say(advice_line(advice))

    def _say(self, line: str) -> None:
        if self.console and self._output is not None and self._output.rank == 0:
            say(line)


def _check(window: int, band: tuple[float, float], warmup: int) -> None:
    if window < 1:
        raise ConfigError(
            f"BatchSizeAdvisor(window={window}) would never read the memory. Pass 1 or more."
        )
    if warmup < 0:
        raise ConfigError(f"BatchSizeAdvisor(warmup={warmup}) is negative. Pass 0 or more.")
    pair = isinstance(band, list | tuple) and len(band) == 2
    if not pair or not 0 < band[0] < band[1] <= 1:
        raise ConfigError(
            f"BatchSizeAdvisor(band={band}) is not a band of the device's memory. Pass two shares "
            "of 1, low and high, such as (0.6, 0.8)."
        )
