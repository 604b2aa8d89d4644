"""Notes at which lines of the program the training thread spends its time."""

import linecache
import sys
import threading
from collections import Counter
from typing import Any

from typing_extensions import override

from lightning_gpuprof.analysis.run.host_lines import NOTE, HostLines, LineCount
from lightning_gpuprof.callbacks._lightning import LightningModule, Trainer
from lightning_gpuprof.callbacks.guard import guarded
from lightning_gpuprof.callbacks.recording import EpochRecorder
from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.probes.stacks.pacing import keep_sampling
from lightning_gpuprof.probes.stacks.stack_lines import (
    At,
    no_collection,
    shown_path,
    where_is,
)
from lightning_gpuprof.probes.stacks.thread_watch import ThreadWatch

THREAD = "gpuprof-lines"
MOST_LINES = 40
"""Lines kept: what is not among them takes less than a sample in a hundred."""


class LineSampler(EpochRecorder):
    """Looks at the training thread's Python stack now and then, for a while.

    A thread of its own wakes every `interval_s` on average, at irregular distances so that it
    cannot keep step with the steps, and reads names and line numbers, no values. It ends once it
    has `most` samples; from then on this costs nothing. The first `warmup` steps are left out.
    What a line takes is host time: on a GPU, what it queued may run later.

    Args:
        interval_s: Mean distance of the first samples; later ones are further apart.
        most: Samples after which it stops.
        warmup: Steps that are not looked at.

    Raises:
        ConfigError: A setting that cannot work.
    """

    def __init__(self, *, interval_s: float = 0.02, most: int = 300, warmup: int = 5) -> None:
        if interval_s <= 0 or most < 1:
            raise ConfigError(
                f"LineSampler(interval_s={interval_s}, most={most}) would take no sample. "
                "Pass an interval above 0 and at least 1 sample."
            )
        super().__init__()
        self.interval_s, self.most, self.warmup = interval_s, most, warmup
        self._seen: Counter[At] = Counter()
        self._noted = 0
        self._watched = 0
        self._threads = ThreadWatch()
        self._stop = threading.Event()

    @override
    @guarded
    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        super().setup(trainer, pl_module, stage)
        self._seen, self._noted, self._threads = Counter(), 0, ThreadWatch()

    @override
    @guarded
    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._release()
        if not getattr(sys, "_is_gil_enabled", lambda: True)():
            return  # frames of a thread that runs meanwhile cannot be walked
        self._watched = threading.get_ident()
        self._stop = threading.Event()
        threading.Thread(target=self._watch, args=(self._stop,), name=THREAD, daemon=True).start()

    def sample(self) -> None:
        """Take one sample of the training thread, where it is in a step."""
        if self._output is None or self._output.step < self.warmup:
            return
        with no_collection():
            frames = sys._current_frames()
            try:
                at = where_is(frames.get(self._watched))
                if at is not None:
                    self._seen[at] += 1
                    self._threads.saw(frames, self._watched)
            finally:
                # This function's own frame is in it: a circle that would keep all threads' local
                # variables, such as a loader's iterator with its workers, for the collector.
                frames.clear()

    @guarded
    def _watch(self, stop: threading.Event) -> None:
        if keep_sampling(
            self.sample,
            lambda: self._seen.total(),
            stop,
            interval_s=self.interval_s,
            most=self.most,
        ):
            self._threads.end()

    @override
    def _write(self) -> None:
        seen = self._seen.copy()
        whole = seen.total()
        if self._output is None or whole == self._noted:
            return
        self._noted = whole
        threads = self._threads.use(self._watched)
        found = HostLines(whole, tuple(_rows(seen)), _by_phase(seen), threads)
        self._output.note(NOTE, found)

    @override
    def _release(self) -> None:
        self._stop.set()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_stop": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._stop = threading.Event()


def _rows(seen: Counter[At]) -> list[LineCount]:
    return [
        LineCount(
            phase=at.phase.value,
            file=shown_path(at.file),
            line=at.line,
            function=at.function,
            source=linecache.getline(at.file, at.line).strip(),
            callee=at.callee,
            kind=at.kind,
            count=count,
        )
        for at, count in seen.most_common()
        if at.file
    ][:MOST_LINES]


def _by_phase(seen: Counter[At]) -> dict[str, int]:
    phases: Counter[str] = Counter()
    for at, count in seen.items():
        phases[at.phase.value] += count
    return dict(phases)
