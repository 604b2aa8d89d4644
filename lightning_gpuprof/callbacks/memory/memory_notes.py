"""Notes of the process's own memory, in which a leak shows where there is no device to ask."""

from lightning_gpuprof.analysis.memory.memory_growth import RSS_NOTE
from lightning_gpuprof.callbacks._lightning import Callback
from lightning_gpuprof.callbacks.dispatch import BatchCalls
from lightning_gpuprof.callbacks.guard import guarded
from lightning_gpuprof.callbacks.output.run_output import RunOutput
from lightning_gpuprof.probes.memory.memory import ProcessMemory
from lightning_gpuprof.records.schema import Note

DENSE, SHORT_NS, SPARSER = 20, 5_000_000_000, 10
"""So many notes come one a window, enough to see a leak; where windows are shorter than this, later
ones come so many times as seldom: each takes some 50 us, three times as much where a training step
has left nothing of it in the processor's caches."""


class MemoryNotes:
    """Notes the process's memory with the last batch of each window, until it is closed.

    Args:
        host: Whose batches are counted.
        output: Where notes go.
        window: Batches per note.
    """

    def __init__(self, host: Callback, output: RunOutput, window: int) -> None:
        self._calls, self._output, self._window = BatchCalls.of(host), output, window
        self._memory = ProcessMemory()
        self._begun_ns = output.now()
        self._batch = 0
        self._come_every(window)

    def close(self) -> None:
        """Note no more."""
        self._calls.drop(self._note)
        self._memory.close()

    _release = close

    def _come_every(self, batches: int) -> None:
        self._every = batches
        self._calls.add(self._note, batches, bare=True)

    @guarded
    def _note(self) -> None:
        self._batch += self._every
        used = self._memory.read()
        if used is None:
            return
        self._output.write(Note(step=self._batch - 1, name=RSS_NOTE, value=used))
        if self._batch == DENSE * self._window:
            mean_ns = (self._output.now() - self._begun_ns) / DENSE
            if mean_ns < SHORT_NS:
                self._calls.drop(self._note)
                self._come_every(SPARSER * self._window)
