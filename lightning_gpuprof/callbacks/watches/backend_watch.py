"""Notes that a backend of torch's is switched off, and tries what that costs."""

from collections import Counter
from collections.abc import Callable
from time import perf_counter_ns
from typing import Any

import torch
from msgspec.structs import replace
from torch.nn import Module
from torch.nn.modules.module import register_module_forward_hook
from torch.utils.hooks import RemovableHandle
from typing_extensions import override

from lightning_gpuprof.callbacks._lightning import LightningModule, Trainer
from lightning_gpuprof.callbacks.dispatch import Hooks, called_by_trainer
from lightning_gpuprof.callbacks.guard import guarded
from lightning_gpuprof.callbacks.recording import RecordingCallback
from lightning_gpuprof.callbacks.timing.compile_watch import CompileWatch
from lightning_gpuprof.probes.looks.backend_trial import Layer, called, try_both
from lightning_gpuprof.probes.looks.debugging import own_line_like
from lightning_gpuprof.probes.looks.unseen import unseen
from lightning_gpuprof.records.backend import BACKEND_NOTE, BackendOff

_OFF = r"(^|: )(\w+\.)*{name}\.enabled *= *False\b|\b{name}\.(set_)?flags\((enabled *= *)?False"
"""What a line looks like that switches a backend off."""


class BackendWatch(RecordingCallback):
    """Reads once whether oneDNN (cuDNN on a GPU) is switched off; it costs nothing where it is on.

    Where oneDNN is off, one batch's calls of convolutions, and of linear layers in 16 bits, are
    noted by their shapes, and when training has ended each is tried as it is set, and with oneDNN:
    how much faster that is depends on shapes, from half as fast to eight times. The switch is
    put back, and no random number is drawn.

    Args:
        clock: Returns nanoseconds; tests pass a fake.
        backends: Has the switches, as `torch.backends` does; tests pass a fake.
    """

    def __init__(self, *, clock: Callable[[], int] = perf_counter_ns, backends: Any = None) -> None:
        super().__init__()
        self._clock, self._given = clock, backends
        self._first = Hooks({"on_train_batch_end": self._look})
        self._looks = Hooks({"on_train_batch_start": self._begin, "on_train_batch_end": self._end})
        self._handle: RemovableHandle | None = None
        self._layers: Counter[Layer] = Counter()
        self._found: BackendOff | None = None

    @override
    @guarded
    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._release()
        self._first.add(called_by_trainer(trainer, self))

    @guarded
    def _look(self, trainer: Trainer, *_: Any) -> None:
        self._first.drop()
        on_cpu = trainer.strategy.root_device.type == "cpu"
        name = "mkldnn" if on_cpu else "cudnn"
        backend = self._backend(name)
        if backend.enabled or not backend.is_available():
            return
        self._found = BackendOff(name, own_line_like(_OFF.format(name=name)))
        self._note(self._found)
        # Hooks on modules would have what was compiled compiled again.
        if on_cpu and trainer.is_global_zero and not CompileWatch.compiled_before():
            self._looks.add(called_by_trainer(trainer, self))
            self._flag_watched()

    @guarded
    def _begin(self, *_: Any) -> None:
        if self._handle is None:
            self._handle = register_module_forward_hook(self._called)

    @guarded
    def _called(self, module: Module, args: Any, output: Any) -> None:
        layer = called(module, args, output)
        if layer is not None:
            self._layers[layer] += 1

    @guarded
    def _end(self, *_: Any) -> None:
        if self._handle is not None:
            self._stop_looking()

    @override
    @guarded
    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        layers, found = self._layers, self._found
        self._release()
        if found is not None and layers:
            backend = self._backend(found.backend)
            with unseen():
                calls, as_set_ns, enabled_ns = try_both(layers, backend, self._clock)
            self._note(
                replace(found, calls=calls, as_set_ns=as_set_ns, enabled_ns=enabled_ns),
            )

    def _backend(self, name: str) -> Any:
        # No module is kept: a callback may be pickled.
        return getattr(torch.backends if self._given is None else self._given, name)

    def _note(self, found: BackendOff) -> None:
        if self._output is not None:
            said = f"torch.backends.{found.backend} is switched off"
            self._output.note(BACKEND_NOTE, found, said)

    def _stop_looking(self) -> None:
        self._looks.drop()
        if self._handle is not None:
            self._handle.remove()
            self._handle = None

    def __getstate__(self) -> dict[str, Any]:
        """Return what a copy is made of; one that is made amid a look has none of it."""
        return self.__dict__ | {"_handle": None}

    @override
    def _release(self) -> None:
        self._first.drop()
        self._stop_looking()
        self._layers, self._found = Counter(), None
