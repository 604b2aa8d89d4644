"""Looks whether frozen modules are given the same samples again in each epoch."""

import sys
from collections.abc import Callable
from time import perf_counter_ns
from typing import Any

from torch.nn import Module
from typing_extensions import override

from lightning_gpuprof.callbacks._lightning import LightningModule, Trainer
from lightning_gpuprof.callbacks.dispatch import Hooks, called_by_trainer
from lightning_gpuprof.callbacks.guard import guarded
from lightning_gpuprof.callbacks.recording import RecordingCallback
from lightning_gpuprof.callbacks.timing.compile_watch import CompileWatch
from lightning_gpuprof.probes.looks.frozen_calls import FrozenCalls, frozen_modules
from lightning_gpuprof.probes.looks.function_uses import shown
from lightning_gpuprof.probes.scalars.transfer import Transfer, to_host
from lightning_gpuprof.records.module_calls import FROZEN_NOTE, FrozenModule
from lightning_gpuprof.records.schema import Note

LOOKS = 3
"""Batches of the first look, after the run's first batch."""


class FrozenWatch(RecordingCallback):
    """Notes what modules without a trained weight take, and whether the next epoch repeats it.

    In three batches of the first epoch it times them, and keeps some numbers of each sample that
    they are given; in the second it looks for these until all were there again. A model without a
    frozen module is not looked at, nor where something was compiled. Between forward passes the
    modules have no hook: whoever copies or pickles them then has none either.

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
                "on_train_batch_start": self._batch_starts,
                "on_before_backward": self._unhook,
                "on_train_batch_end": self._batch_ends,
                "on_train_epoch_end": self._epoch_ends,
            }
        )
        self._calls: dict[Module, FrozenCalls] = {}
        self._handles: list[Any] = []
        self._batches = 0
        self._again = False

    @override
    @guarded
    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._release()
        for name, module in frozen_modules(pl_module).items():
            self._calls[module] = FrozenCalls(name, self._clock, self._transfer)
        if self._calls:
            self._hooks.add(called_by_trainer(trainer, self))

    @guarded
    def _batch_starts(self, *_: Any) -> None:
        if CompileWatch.compiled_before():
            self._release()
        elif self._again or 0 < self._batches <= LOOKS:
            for module, calls in self._calls.items():
                if calls.usable and (calls.rows or not self._again):
                    self._handles += [
                        module.register_forward_pre_hook(self._enter),
                        module.register_forward_hook(self._leave, with_kwargs=True),
                    ]

    @guarded
    def _enter(self, module: Module, _: Any) -> None:
        self._calls[module].enter()

    @guarded
    def _leave(self, module: Module, args: Any, kwargs: Any, output: Any) -> None:
        self._calls[module].leave(module, (args, kwargs), output, sys._getframe(1), self._again)

    @guarded
    def _batch_ends(self, *_: Any) -> None:
        self._unhook()
        self._batches += 1
        for calls in self._calls.values():
            calls.arrived()
        if self._again and all(one.seen == one.rows for one in self._calls.values() if one.usable):
            self._end()

    @guarded
    def _epoch_ends(self, *_: Any) -> None:
        self._unhook()
        for calls in self._calls.values():
            calls.arrived(wait=True)
        if self._again or not any(one.usable and one.rows for one in self._calls.values()):
            self._end()
        else:
            self._again = True

    def _end(self) -> None:
        found = [one for one in self._calls.values() if one.usable and one.rows and self._again]
        value = tuple(
            FrozenModule(
                name=one.name,
                taken_ns=min(one.taken_ns),
                samples=len(one.rows),
                seen_again=len(one.seen),
                out_bytes=one.out_bytes,
                place=None if one.place is None else shown(one.place),
            )
            for one in found
        )
        if value and self._output is not None:
            self._output.write(Note(step=self._output.step, name=FROZEN_NOTE, value=value))
        self._release()

    def _unhook(self, *_: Any) -> None:
        while self._handles:
            self._handles.pop().remove()

    def __getstate__(self) -> dict[str, Any]:
        """Return what a copy is made of; it does not look at the modules of this one."""
        return self.__dict__ | {"_calls": {}, "_handles": []}

    @override
    def _release(self) -> None:
        self._unhook()
        self._hooks.drop()
        self._calls, self._batches, self._again = {}, 0, False
