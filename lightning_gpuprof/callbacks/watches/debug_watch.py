"""Looks once whether a tool for debugging was left on."""

from collections.abc import Callable
from time import perf_counter_ns
from typing import Any

from msgspec.structs import replace
from typing_extensions import override

from lightning_gpuprof.callbacks._lightning import LightningModule, Trainer
from lightning_gpuprof.callbacks.dispatch import Hooks, called_by_trainer
from lightning_gpuprof.callbacks.guard import guarded
from lightning_gpuprof.callbacks.recording import Watch
from lightning_gpuprof.probes.looks.debugging import debugging_on, own_line_like
from lightning_gpuprof.probes.looks.thread_trial import cores_of_process, thread_trial
from lightning_gpuprof.probes.looks.unseen import unseen
from lightning_gpuprof.records.debugging import DEBUGGING_NOTE, THREADS_NOTE


class DebugWatch(Watch):
    """Notes at the end of the first batch what of Python's and torch's debugging is on.

    Not at the start of training: a hook of the program may switch it on there. It reads a few
    settings; only where one is on are the program's files searched for the line. Where torch has
    more threads than there are cores and trains on these, it tries what that costs.

    Args:
        clock: Returns nanoseconds; tests pass a fake.
        cores: Returns how many cores the process may use.
    """

    def __init__(
        self,
        *,
        clock: Callable[[], int] = perf_counter_ns,
        cores: Callable[[], int] = cores_of_process,
    ) -> None:
        super().__init__()
        self._clock, self._cores = clock, cores
        self._hooks = Hooks({"on_train_batch_end": self._look})

    @override
    @guarded
    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._release()
        self._hooks.add(called_by_trainer(trainer, self))

    @guarded
    def _look(self, trainer: Trainer, *_: Any) -> None:
        self._release()
        if trainer.strategy.root_device.type == "cpu":
            self._try_threads()
        found = debugging_on()
        if found and self._output is not None:
            self._output.note(DEBUGGING_NOTE, found)

    def _try_threads(self) -> None:
        with unseen():
            trial = thread_trial(self._clock, self._cores())
        if trial is not None and self._output is not None:
            value = replace(trial, place=own_line_like(r"set_num_threads\("))
            self._output.note(THREADS_NOTE, value)

    @override
    def _release(self) -> None:
        self._hooks.drop()
