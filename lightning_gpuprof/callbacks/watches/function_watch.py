"""Looks at the torch functions of two forward passes at the start for work that nobody needs."""

from collections.abc import Callable
from time import thread_time_ns
from types import FrameType
from typing import Any

from typing_extensions import override

from lightning_gpuprof.callbacks._lightning import LightningModule, Trainer
from lightning_gpuprof.callbacks.dispatch import Hooks, called_by_trainer
from lightning_gpuprof.callbacks.guard import guarded
from lightning_gpuprof.callbacks.recording import Watch
from lightning_gpuprof.callbacks.timing.compile_watch import CompileWatch
from lightning_gpuprof.probes.looks.attention_trial import unread_weights
from lightning_gpuprof.probes.looks.function_calls import FunctionCalls, versions_of
from lightning_gpuprof.probes.looks.function_mode import Watching, may_be_fast
from lightning_gpuprof.probes.looks.function_uses import notes_of
from lightning_gpuprof.probes.looks.separable_windows import separable_windows
from lightning_gpuprof.probes.looks.sparse_products import sparse_products
from lightning_gpuprof.probes.looks.taken_apart import taken_apart
from lightning_gpuprof.probes.looks.unseen import unseen
from lightning_gpuprof.probes.looks.written_activations import written_activations
from lightning_gpuprof.records.function_calls import FUNCTIONS_NOTE, FunctionNotes

LOOKS = 2
"""Batches of the look, after the first, in which lazy modules are made and kernels are chosen."""

MOST_CALLS = 100_000
"""A batch of more is not looked at to its end: that would take seconds."""


class FunctionWatch(Watch):
    """Looks in two batches at each torch function between a batch's start and its backward pass.

    Told apart is what a result came from: from the batch, from the weights alone, or from neither.
    So it shows values that are the same in every step, penalties and weights that are made by
    hand, equal layers called one by one, and attention asked for weights that nobody reads. The
    functions run as always, one after the other, and results are not changed. Where something was
    compiled there is no look, for it would have that compiled again; nor where attention may take
    a path that it takes unwatched alone.

    Args:
        clock: Returns nanoseconds; tests pass a fake. It is the thread's own time on a core: two
            batches are too few to tell a function from a neighbour on a busy machine.
    """

    def __init__(self, *, clock: Callable[[], int] = thread_time_ns) -> None:
        super().__init__()
        self._clock = clock
        self._looks = Hooks({"on_train_batch_start": self._begin, "on_train_batch_end": self._end})
        # A skipped batch has no end: then the epoch's is the next.
        ends = ("on_before_backward", "on_train_batch_end", "on_train_epoch_end")
        self._leaves = Hooks(dict.fromkeys(ends, self._leave))
        self._looking = self._waited = False
        self._told = 0
        self._mode: Watching | None = None
        self._batches: list[FunctionCalls] = []
        self._versions: dict[int, int] = {}

    @override
    @guarded
    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._release()
        self._looking, self._waited = True, False
        host = called_by_trainer(trainer, self)
        self._looks.add(host)
        self._leaves.add(host)

    @guarded
    def _begin(self, trainer: Trainer, pl_module: LightningModule, *_: Any) -> None:
        self._leave()
        if not self._waited:
            self._waited, self._versions = True, versions_of(pl_module)
        elif len(self._batches) == LOOKS or not _may_look(pl_module):
            self._release()
        else:
            for batch in self._batches:
                batch.attention.clear()  # its tensors are not ours to keep
            self._batches.append(FunctionCalls(pl_module, self._versions))
            self._told = 0
            self._mode = Watching(self._seen, self._clock)
            self._mode.start()

    @guarded
    def _seen(
        self, func: Any, args: Any, kwargs: Any, output: Any, taken_ns: int, frame: FrameType
    ) -> None:
        self._told += 1
        if self._told > MOST_CALLS:
            self._release()
        else:
            self._batches[-1].seen(func, args, kwargs, output, taken_ns, frame)

    def _leave(self, *_: Any) -> None:
        """End the look at a batch: gradients and updates are of weights anyway.

        Where `_seen` failed, the mode is left only here, behind the function: so it has no guard,
        which would call nothing any more.
        """
        if self._mode is not None and self._mode.stop():
            self._mode = None
        if self._mode is None and not self._looking:
            self._leaves.drop()

    @guarded
    def _end(self, trainer: Trainer, pl_module: LightningModule, *_: Any) -> None:
        if len(self._batches) < LOOKS:
            if _may_look(pl_module):
                self._flag_watched()  # before the next step's border, where it is chosen for marks
            return
        if self._output is not None:
            with unseen():
                value = self._found()
            self._output.note(FUNCTIONS_NOTE, value)
        self._release()

    def _found(self) -> FunctionNotes:
        batches, clock = self._batches, self._clock
        unread = unread_weights(batches[-1].attention, clock)
        apart = taken_apart([one.slices for one in batches], clock)
        windows = separable_windows([one.windows for one in batches], clock)
        activations = written_activations([one.activations for one in batches], clock)
        products = sparse_products([one.products for one in batches], clock)
        return notes_of(batches, unread, apart, windows, activations, products)

    def __getstate__(self) -> dict[str, Any]:
        """Return what a copy is made of; one that is made amid a look has none of it."""
        return self.__dict__ | {"_mode": None, "_batches": []}

    @override
    def _release(self) -> None:
        self._looking = False
        self._looks.drop()
        self._leave()
        self._batches = []


def _may_look(model: LightningModule) -> bool:
    return not (CompileWatch.compiled_before() or may_be_fast(model))
