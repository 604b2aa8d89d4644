"""Looks at the torch functions of two forward passes at the start for work that nobody needs."""

from collections.abc import Callable
from time import thread_time_ns
from types import FrameType
from typing import Any

from typing_extensions import override

from lightning_gpuprof.callbacks._lightning import Callback, LightningModule, Trainer
from lightning_gpuprof.callbacks.dispatch import add_hook, called_by_trainer, drop_hook
from lightning_gpuprof.callbacks.guard import guarded
from lightning_gpuprof.callbacks.recording import RecordingCallback
from lightning_gpuprof.callbacks.timing.compile_watch import CompileWatch
from lightning_gpuprof.probes.attention_trial import unread_weights
from lightning_gpuprof.probes.function_calls import FunctionCalls
from lightning_gpuprof.probes.function_mode import Watching
from lightning_gpuprof.probes.function_uses import notes_of
from lightning_gpuprof.records.function_calls import FUNCTIONS_NOTE
from lightning_gpuprof.records.schema import Note

LOOKS = 2
"""Batches of the look, after the first, in which lazy modules are made and kernels are chosen."""


class FunctionWatch(RecordingCallback):
    """Looks in two batches at each torch function between a batch's start and its backward pass.

    Told apart is what a result came from: from the batch, from the weights alone, or from neither.
    So it shows values that are the same in every step, penalties and weights that are made by
    hand, equal layers called one by one, and attention asked for weights that nobody reads. The
    functions run as always, one after the other, and results are not changed. Where something was
    compiled there is no look, for it would have that compiled again.

    Args:
        clock: Returns nanoseconds; tests pass a fake. It is the thread's own time on a core: two
            batches are too few to tell a function from a neighbour on a busy machine.
    """

    def __init__(self, *, clock: Callable[[], int] = thread_time_ns) -> None:
        super().__init__()
        self._clock = clock
        self._host: Callback | None = None
        self._mode: Watching | None = None
        self._batches: list[FunctionCalls] = []
        self._waited = False

    @override
    @guarded
    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._release()
        self._waited = False
        self._host = called_by_trainer(trainer, self)
        add_hook(self._host, "on_train_batch_start", self._begin)
        add_hook(self._host, "on_before_backward", self._pause)
        add_hook(self._host, "on_train_batch_end", self._end)

    @guarded
    def _begin(self, trainer: Trainer, pl_module: LightningModule, *_: Any) -> None:
        if not self._waited:
            self._waited = True
        elif CompileWatch.compiled_before():
            self._release()
        else:
            self._batches.append(FunctionCalls(pl_module))
            self._mode = Watching(self._seen, self._clock)
            self._mode.start()

    @guarded
    def _seen(
        self, func: Any, args: Any, kwargs: Any, output: Any, taken_ns: int, frame: FrameType
    ) -> None:
        self._batches[-1].seen(func, args, kwargs, output, taken_ns, frame)

    @guarded
    def _pause(self, *_: Any) -> None:
        """End the look at a batch: gradients and updates are of weights anyway."""
        self._stop()

    @guarded
    def _end(self, *_: Any) -> None:
        self._stop()
        if len(self._batches) == LOOKS and self._output is not None:
            unread = unread_weights(self._batches[-1].attention, self._clock)
            value = notes_of(self._batches, unread)
            self._output.write(Note(step=self._output.step, name=FUNCTIONS_NOTE, value=value))
        if len(self._batches) == LOOKS:
            self._release()

    def _stop(self) -> None:
        mode, self._mode = self._mode, None
        if mode is not None:
            mode.stop()
        for batch in self._batches[:-1]:
            batch.attention.clear()  # its tensors are not ours to keep

    @override
    @guarded
    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._release()

    @override
    def _release(self) -> None:
        self._stop()
        host, self._host = self._host, None
        if host is not None:
            drop_hook(host, "on_train_batch_start", self._begin)
            drop_hook(host, "on_before_backward", self._pause)
            drop_hook(host, "on_train_batch_end", self._end)
        self._batches = []
