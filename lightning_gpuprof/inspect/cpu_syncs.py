"""Finds, on a CPU, the calls that would make the host wait if the model were on a GPU."""

import linecache
import os
import sys
import threading
from collections.abc import Callable, Iterable
from functools import partial
from types import FrameType
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from typing_extensions import override

from lightning_gpuprof.adapters.torch_tensors import TorchDispatchMode, storage_key, tree_leaves
from lightning_gpuprof.inspect import sync_calls
from lightning_gpuprof.inspect.advice import PAGEABLE_COPY
from lightning_gpuprof.inspect.places import Report
from lightning_gpuprof.runtime.patches import Patches

_HERE, _TORCH = __file__, os.path.dirname(torch.__file__)
_WRAPPERS = ("", "__get__", "backward", "grad")
"""Calls that say nothing about the operators they run."""
_ATEN_NAMES = {"_local_scalar_dense": "item", "index": "boolean mask", "_unique2": "unique"}


class _Call(NamedTuple):
    """The outermost call of a Python function of torch's that is under way."""

    name: str = ""
    on_host: bool = False
    """A tensor that it makes from nothing would lie there."""

    @property
    def judged(self) -> bool:
        """Whether the call was judged as a whole, so that its operators are not."""
        return self.name in sync_calls.READS


class CpuSyncDetector:
    """Reports what would sync on a GPU, for a training loop that runs on a CPU.

    It follows from call to call which tensors would lie on the GPU: a tensor that is made without
    `device=` or fetched from a loader stays on the host until it is moved; a result computed from
    a tensor on the device is on the device; an older tensor is taken to be on the device, unless
    it is `on_host` even with a GPU, as optimizers' counters are. Every operator's result passes
    here, so a storage's address can be reused. Meanwhile torch.compile runs functions uncompiled.
    """

    would_sync = True

    def __init__(
        self,
        report: Report,
        *,
        on_host: Iterable[Tensor] = (),
        fetching: Callable[[], bool] = lambda: False,
    ) -> None:
        self._report = report
        self._host = set(map(storage_key, on_host))
        self._fetching = fetching
        self._thread = 0
        self._patches = Patches()
        self._modes: list[Any] = []
        self.call = _Call()

    def start(self) -> bool:
        """Begin to report calls of this thread."""
        self._thread = threading.get_ident()
        for owner, operation in sync_calls.synchronize_calls():
            self._patches.instead(owner, "synchronize", partial(self._waiting, operation))
        self._modes = [_Operators(self), _Calls(self)]
        for mode in self._modes:
            mode.__enter__()
        return True

    def stop(self) -> None:
        """Leave the modes and put torch's functions back."""
        while self._modes:
            self._modes.pop().__exit__(None, None, None)
        self._patches.restore()

    def begin_call(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Judge a call of one of torch's Python functions."""
        device = _device_of(name, args, kwargs)
        self.call = _Call(name, name in sync_calls.FACTORIES and device is None)
        if name in sync_calls.READS:
            if self._on_device(args[:1]):
                self._found(sync_calls.NAMES.get(name, name))
        elif device is not None and (name in sync_calls.FROM_DATA or name in ("to", "cuda")):
            to_host = _names_the_cpu(args, kwargs)
            from_device = self._on_device(args[1:] if name == "new_tensor" else args)
            if from_device == to_host and not kwargs.get("non_blocking"):
                self._found("cpu" if to_host else PAGEABLE_COPY)

    def end_call(
        self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any
    ) -> Any:
        """Note where the result of a call would lie; returns the result."""
        if name in sync_calls.READS or _device_of(name, args, kwargs) is not None:
            on_host = name in sync_calls.READS or _names_the_cpu(args, kwargs)
            if on_host and isinstance(result, Tensor) and self._on_device((result,)):
                result = result.clone()  # on a GPU it would be a copy too, not the tensor itself
            self._put(result, on_host=on_host)
        elif name in sync_calls.FACTORIES and not self._on_device(args):
            self._put(result, on_host=True)  # torch.tensor runs no operator
        return result

    def operator(self, operator: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run an ATen operator; report it if it would sync."""
        aten = sync_calls.operator_name(operator).partition(".")[0]
        if aten == "copy_":
            self._judge_copy(args, kwargs)
            return operator(*args, **kwargs)
        given = _tensors((args, kwargs))
        on_host = self._fetching() or (
            all(map(self._is_host, given)) if given else self.call.on_host
        )
        if not on_host and not self.call.judged and sync_calls.shows_values(operator, args, kwargs):
            called = sync_calls.NAMES.get(self.call.name, self.call.name)
            shown = _ATEN_NAMES.get(aten, aten.strip("_")) if called in _WRAPPERS else called
            self._found(shown)
        result = operator(*args, **kwargs)
        self._put(result, on_host=on_host)
        return result

    def _judge_copy(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        to_host, from_host = map(self._is_host, args[:2])
        waits = not any(args[2:]) and not kwargs.get("non_blocking")
        if to_host != from_host and waits and not self._fetching() and not self.call.judged:
            self._found("copy to the host" if to_host else PAGEABLE_COPY)

    def _found(self, operation: str) -> None:
        if threading.get_ident() == self._thread:
            self._report(operation)

    def _is_host(self, tensor: Tensor) -> bool:
        return storage_key(tensor) in self._host

    def _on_device(self, values: tuple[Any, ...]) -> bool:
        tensors = [value for value in values if isinstance(value, Tensor)]
        return not self._fetching() and not all(map(self._is_host, tensors))

    def _put(self, values: Any, *, on_host: bool) -> None:
        change = self._host.add if on_host else self._host.discard
        for tensor in _tensors(values):
            change(storage_key(tensor))

    def _waiting(self, operation: str, original: Any, *args: Any, **kwargs: Any) -> Any:
        self._found(operation)
        # Without a GPU torch would raise.
        return original(*args, **kwargs) if torch.cuda.is_available() else None


class _Calls(TorchFunctionMode):
    def __init__(self, detector: CpuSyncDetector) -> None:
        super().__init__()
        self._detector = detector

    @override
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        detector, name = self._detector, getattr(func, "__name__", "") or type(func).__name__
        detector.begin_call(name, args, kwargs)
        try:
            return detector.end_call(name, args, kwargs, func(*args, **kwargs))
        finally:
            detector.call = _Call()


class _Operators(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self, detector: CpuSyncDetector) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._detector = detector

    @override
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self._detector.operator(func, args, kwargs or {})


def _tensors(values: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(values) if isinstance(leaf, Tensor)]


def _device_of(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the device that a call names, None where it names none."""
    if kwargs.get("device") is not None:
        return kwargs["device"]
    if name == "cuda":
        return "cuda"
    given = (value for value in args[1:] if isinstance(value, (torch.device, str, Tensor)))
    found = next(given, None) if name == "to" else None
    return found.device if isinstance(found, Tensor) else found


def _names_the_cpu(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Tell whether the line itself says "cpu"; a variable stands for the model's own device."""
    given = (*args[1:], kwargs.get("device"))
    if not any(type(value) is str and value == "cpu" for value in given):
        return False
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith((_HERE, _TORCH)):
        frame = frame.f_back
    if frame is None:
        return True
    line = linecache.getline(frame.f_code.co_filename, frame.f_lineno)
    return not line or '"cpu"' in line or "'cpu'" in line
