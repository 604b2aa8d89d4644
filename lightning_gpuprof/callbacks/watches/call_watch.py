"""Looks at the calls of modules in a batch at the start: repeats, and rows that are looked up."""

import sys
from collections.abc import Callable
from statistics import median
from time import perf_counter_ns
from typing import Any

import torch
from torch.nn import Module
from torch.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)
from typing_extensions import override

from lightning_gpuprof.callbacks._lightning import LightningModule, Trainer
from lightning_gpuprof.callbacks.dispatch import Hooks, called_by_trainer
from lightning_gpuprof.callbacks.guard import guarded
from lightning_gpuprof.callbacks.recording import RecordingCallback
from lightning_gpuprof.callbacks.timing.compile_watch import CompileWatch
from lightning_gpuprof.probes.looks.call_places import shown
from lightning_gpuprof.probes.looks.closure_calls import closure_call
from lightning_gpuprof.probes.looks.embedding_calls import EmbeddingCalls
from lightning_gpuprof.probes.looks.repeated_calls import SAME, Repeat, RepeatedCalls
from lightning_gpuprof.probes.looks.unseen import unseen
from lightning_gpuprof.probes.scalars.transfer import Pending, Transfer, to_host
from lightning_gpuprof.records.module_calls import (
    REPEATED_NOTE,
    TABLES_NOTE,
    EmbeddingUse,
    RepeatedModule,
)

LOOKS, CLOSE_LOOKS = 1, 3
"""Batches of a look at all modules, and of one at those that were repeated; after the first batch,
in which lazy modules are made and kernels are chosen."""
_OF_A_LOOK = ("_calls", "_tables", "_differences", "_model")


class CallWatch(RecordingCallback):
    """Looks in a batch at the start how modules are called, and then hardly ever again.

    Noted is how many rows of each embedding table are looked up. Where a module is called twice
    with the same input (a shared encoder that two heads each run, `self(x)` once for the loss and
    once for a metric), the next three batches tell by the host's clock what it takes, from which
    lines, and whether it gives the same: with a dropout inside it does not, and may be meant so.
    Where something was compiled there is no look, for its hooks would have it compiled again.

    Args:
        clock: Returns nanoseconds; tests pass a fake.
        transfer: Queues a copy to the host; tests pass a fake.
    """

    def __init__(
        self, *, clock: Callable[[], int] = perf_counter_ns, transfer: Transfer = to_host
    ) -> None:
        super().__init__()
        self._clock, self._transfer = clock, transfer
        self._hooks = Hooks(
            {
                "on_train_batch_end": self._batch_ends,
                "on_before_backward": self._before_backward,
            }
        )
        self._calls: RepeatedCalls | None = None
        self._tables: EmbeddingCalls | None = None
        self._names: dict[int, str] = {}
        self._handles: list[Any] = []
        self._batches: list[list[Repeat]] = []
        self._differences: Pending | None = None
        self._model: LightningModule | None = None

    @override
    @guarded
    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._release()
        self._model = pl_module
        self._names = {id(part): name for name, part in pl_module.named_modules()}
        self._hooks.add(called_by_trainer(trainer, self))

    @guarded
    def _batch_ends(self, trainer: Trainer, pl_module: LightningModule, *_: Any) -> None:
        if self._differences is not None:
            self._end(wait=False)
        elif self._calls is None:
            self._look(pl_module)
        else:
            with unseen():
                self._batches.append(self._calls.end_batch())
            if self._calls.closely and len(self._batches) == CLOSE_LOOKS:
                self._compare()
            elif not self._calls.closely and len(self._batches) == LOOKS:
                self._look_closely(pl_module)
        if self._calls is not None:
            self._flag_watched()

    @guarded
    def _before_backward(self, *_: Any) -> None:
        if self._calls is not None:
            self._calls.before_backward()

    @override
    @guarded
    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._end(wait=True)
        self._release()

    def _look(self, model: Module) -> None:
        if CompileWatch.compiled_before():
            self._release()
            return
        self._calls = RepeatedCalls(model, self._names, self._clock)
        self._tables = EmbeddingCalls(model)
        self._handles = [
            register_module_forward_pre_hook(self._enter),
            register_module_forward_hook(self._leave, with_kwargs=True),
        ]

    def _look_closely(self, model: Module) -> None:
        self._note_tables()
        found = {repeat.module for batch in self._batches for repeat in batch}
        if not found:
            self._release()
            return
        # What runs again inside of one that does goes with it, or is meant as that is.
        names = {self._names[number] for number in found}
        outermost = {number for number in found if not _is_inside(self._names[number], names)}
        self._calls = RepeatedCalls(model, outermost, self._clock, closely=True)
        self._batches = []

    @guarded
    def _enter(self, module: Module, _: Any) -> None:
        if self._calls is not None:
            self._calls.enter(module)

    @guarded
    def _leave(self, module: Module, args: Any, kwargs: Any, output: Any) -> None:
        if self._calls is not None:
            with unseen():
                self._calls.leave(module, (args, kwargs), output, sys._getframe(1))
        if self._tables is not None:
            self._tables.called(module, args, sys._getframe(1))

    def _note_tables(self) -> None:
        tables, self._tables = self._tables, None
        if tables is None or self._output is None:
            return
        value = tuple(
            EmbeddingUse(
                name=self._names[number],
                rows=table.num_embeddings,
                width=table.embedding_dim,
                looked_up=tables.looked_up[number] // LOOKS,
                place=shown(at) if (at := tables.places.get(number)) else None,
            )
            for number, table in tables.own().items()
            if number in self._names
        )
        if value:
            self._output.note(TABLES_NOTE, value)

    def _compare(self) -> None:
        """Queue the copy of what tells whether the outputs were the same."""
        self._stop_looking()
        self._batches = [
            [one for one in batch if one.difference is not None] for batch in self._batches
        ]
        found = [one.difference for batch in self._batches for one in batch]
        here = [one for one in found if one is not None]
        if not here:
            self._release()
            return
        with unseen():
            self._differences = self._transfer(torch.stack([one.to(here[0]) for one in here]))

    def _end(self, *, wait: bool) -> None:
        """Write the note once the differences are on the host."""
        differences = self._differences
        if differences is None or not (wait or differences.ready()):
            return
        values = iter(differences.result().tolist())
        same = [[next(values) <= SAME for _ in batch] for batch in self._batches]
        differing = {
            one.module
            for batch, equal in zip(self._batches, same, strict=True)
            for one, is_equal in zip(batch, equal, strict=True)
            if not is_equal
        }
        self._note(differing)
        self._release()

    def _note(self, differing: set[int]) -> None:
        found = {one.module for batch in self._batches for one in batch} - differing
        value = sorted(map(self._repeated, found), key=lambda one: -one.repeat_ns)
        if value and self._output is not None:
            self._output.note(REPEATED_NOTE, tuple(value))

    def _repeated(self, number: int) -> RepeatedModule:
        of_each = [[one for one in batch if one.module == number] for batch in self._batches]
        every = [one for some in of_each for one in some]
        whole_ns = sum(one.repeat_ns for one in every)
        places = dict.fromkeys(place for one in every for place in one.places if place)
        passes = round(median(max((one.passes for one in some), default=1) for some in of_each))
        closure = None
        if passes > 1 and self._model is not None and self._model.automatic_optimization:
            closure = closure_call(self._model)
        return RepeatedModule(
            name=self._names[number],
            calls=round(median(sum(one.calls for one in some) for some in of_each)),
            repeat_ns=round(median(sum(one.repeat_ns for one in some) for some in of_each)),
            backward_frac=sum(one.backward_ns for one in every) / max(1, whole_ns),
            places=tuple(map(shown, places)),
            passes=passes,
            closure=closure,
        )

    def _stop_looking(self) -> None:
        while self._handles:
            self._handles.pop().remove()
        self._calls = None

    def __getstate__(self) -> dict[str, Any]:
        """Return what a copy is made of; one that is made amid a look has none of it."""
        return self.__dict__ | dict.fromkeys(_OF_A_LOOK) | {"_handles": [], "_batches": []}

    @override
    def _release(self) -> None:
        self._stop_looking()
        self._hooks.drop()
        self._batches, self._differences, self._tables = [], None, None
        self._model = None


def _is_inside(name: str, names: set[str]) -> bool:
    """Tell whether a module is inside one of those."""
    return any(name != other and (not other or name.startswith(f"{other}.")) for other in names)
