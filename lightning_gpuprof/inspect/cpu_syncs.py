"""Finds calls that would make the host wait if the model, which is on a CPU, were on a GPU."""

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
from lightning_gpuprof.inspect.places import ReportSync
from lightning_gpuprof.runtime.wrap import Wrappers

_HERE, _TORCH = __file__, os.path.dirname(torch.__file__)
_UNTELLING_CALLS = ("", "__get__", "backward", "grad")
"""Names of calls under which any operator can run, so that the operator's own name is shown."""
_ATEN_NAMES = {"_local_scalar_dense": "item", "index": "boolean mask", "_unique2": "unique"}
"""The names under which the result shows operators of ATen."""


class _Call(NamedTuple):
    """The outermost running call of one of torch's Python functions."""

    name: str = ""
    on_host: bool = False
    """Whether a tensor that the call makes, without a tensor as its input, would be on the host."""

    @property
    def judged(self) -> bool:
        """Whether the call has been judged as a whole, so that its operators need no judgement."""
        return self.name in sync_calls.READS


class CpuSyncDetector:
    """Reports the calls of a training loop on a CPU that would be host syncs on a GPU.

    The detector follows which tensors would be on the GPU:

    - A tensor that is made without `device=`, or fetched from a loader, is on the host until a
      call moves it.
    - A result that is computed from a tensor on the device is on the device.
    - A tensor from before the inspection counts as on the device. The exceptions are `on_host`:
      tensors that stay on the host even with a GPU, such as optimizers' step counters.

    Tensors are told apart by the address of their storage. That is safe although addresses are
    reused, because the result of every operator passes through the detector. While it is active,
    torch.compile runs functions uncompiled.
    """

    would_sync = True

    def __init__(
        self,
        report: ReportSync,
        *,
        on_host: Iterable[Tensor] = (),
        fetching: Callable[[], bool] = lambda: False,
    ) -> None:
        self._report = report
        self._host = set(map(storage_key, on_host))
        self._fetching = fetching
        self._thread = 0
        self._wrappers = Wrappers()
        self._modes: list[Any] = []
        self.call = _Call()

    def start(self) -> bool:
        """Begin to report calls of the current thread."""
        self._thread = threading.get_ident()
        for owner, operation in sync_calls.synchronize_calls():
            self._wrappers.call_instead(owner, "synchronize", partial(self._synchronize, operation))
        self._modes = [_Operators(self), _Calls(self)]
        for mode in self._modes:
            mode.__enter__()
        return True

    def stop(self) -> None:
        """Leave the modes of torch and restore its functions."""
        while self._modes:
            self._modes.pop().__exit__(None, None, None)
        self._wrappers.restore()

    def begin_call(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Report a call of one of torch's Python functions if it would sync."""
        device = _device_of(name, args, kwargs)
        self.call = _Call(name, name in sync_calls.FACTORIES and device is None)
        if name in sync_calls.READS:
            if self._on_device(args[:1]):
                self._report_sync(sync_calls.NAMES.get(name, name))
        elif device is not None and (name in sync_calls.FROM_DATA or name in ("to", "cuda")):
            to_host = _names_the_cpu(args, kwargs)
            from_device = self._on_device(args[1:] if name == "new_tensor" else args)
            # A copy waits if it crosses between the host and the device, in either direction.
            if from_device == to_host and not kwargs.get("non_blocking"):
                self._report_sync("cpu" if to_host else PAGEABLE_COPY)

    def end_call(
        self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any
    ) -> Any:
        """Note whether the result of a call would be on the host, and return the result."""
        if name in sync_calls.READS or _device_of(name, args, kwargs) is not None:
            on_host = name in sync_calls.READS or _names_the_cpu(args, kwargs)
            if on_host and isinstance(result, Tensor) and self._on_device((result,)):
                # On a GPU the call would return a copy. On a CPU it returns its own input, which
                # must keep its place on the device.
                result = result.clone()
            self._note_location(result, on_host=on_host)
        elif name in sync_calls.FACTORIES and not self._on_device(args):
            self._note_location(result, on_host=True)  # torch.tensor runs no operator
        return result

    def operator(self, operator: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run an ATen operator; report it if it would sync."""
        aten = sync_calls.operator_name(operator).partition(".")[0]
        if aten == "copy_":
            self._judge_copy(args, kwargs)
            return operator(*args, **kwargs)
        inputs = _tensors((args, kwargs))
        on_host = self._fetching() or (
            all(map(self._is_on_host, inputs)) if inputs else self.call.on_host
        )
        if not on_host and not self.call.judged and sync_calls.needs_values(operator, args, kwargs):
            called = sync_calls.NAMES.get(self.call.name, self.call.name)
            if called in _UNTELLING_CALLS:
                called = _ATEN_NAMES.get(aten, aten.strip("_"))
            self._report_sync(called)
        result = operator(*args, **kwargs)
        self._note_location(result, on_host=on_host)
        return result

    def _judge_copy(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        to_host, from_host = map(self._is_on_host, args[:2])
        waits = not any(args[2:]) and not kwargs.get("non_blocking")
        if to_host != from_host and waits and not self._fetching() and not self.call.judged:
            self._report_sync("copy to the host" if to_host else PAGEABLE_COPY)

    def _report_sync(self, operation: str) -> None:
        if threading.get_ident() == self._thread:
            self._report(operation)

    def _is_on_host(self, tensor: Tensor) -> bool:
        return storage_key(tensor) in self._host

    def _on_device(self, values: tuple[Any, ...]) -> bool:
        tensors = [value for value in values if isinstance(value, Tensor)]
        return not self._fetching() and not all(map(self._is_on_host, tensors))

    def _note_location(self, values: Any, *, on_host: bool) -> None:
        for tensor in _tensors(values):
            if on_host:
                self._host.add(storage_key(tensor))
            else:
                self._host.discard(storage_key(tensor))

    def _synchronize(self, operation: str, original: Any, *args: Any, **kwargs: Any) -> Any:
        self._report_sync(operation)
        # Without a GPU the original raises.
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
    """Return the device that a call names, or None."""
    if kwargs.get("device") is not None:
        return kwargs["device"]
    if name == "cuda":
        return "cuda"
    if name != "to":
        return None
    for value in args[1:]:
        if isinstance(value, Tensor):
            return value.device
        if isinstance(value, (torch.device, str)):
            return value
    return None


def _names_the_cpu(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Return whether the user's line of code contains the word "cpu".

    A variable that holds "cpu" does not count: it stands for the model's own device.
    """
    arguments = (*args[1:], kwargs.get("device"))
    if not any(type(value) is str and value == "cpu" for value in arguments):
        return False
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith((_HERE, _TORCH)):
        frame = frame.f_back
    if frame is None:
        return True
    line = linecache.getline(frame.f_code.co_filename, frame.f_lineno)
    return not line or '"cpu"' in line or "'cpu'" in line
