"""Finds host syncs on CUDA and HIP devices, of which torch warns in its sync debug mode."""

import threading
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch

from lightning_gpuprof.adapters.dynamo import counters
from lightning_gpuprof.inspect.advice import PAGEABLE_COPY
from lightning_gpuprof.inspect.places import HostSync, ReportSync
from lightning_gpuprof.inspect.sync_calls import NAMES, READS, SYNCHRONIZE, synchronize_calls
from lightning_gpuprof.runtime.wrap import Wrappers

MESSAGE = "called a synchronizing CUDA operation"
"""The beginning of torch's warning, on HIP devices too."""
_PROTOTYPE_WARNING = "Synchronization debug mode"
_RAISES = 2
"""The debug mode in which torch raises at every sync."""
_NAMED_METHODS = READS | {"to", "cuda", "nonzero", "masked_select", "unique", "repeat_interleave"}
_COPIES = ("to", "cuda", "tensor", "as_tensor")
"""Methods and functions that copy a tensor. The result shows the direction and not the name."""
_NAMED_FUNCTIONS = ("tensor", "as_tensor", "where", "nonzero", "masked_select", "unique", "equal")


class CudaSyncDetector:
    """Reports the host syncs of a device, by `torch.cuda.set_sync_debug_mode`.

    Only syncs of the training thread are reported, since those of other threads do not hold up
    training. Syncs of autograd's threads count: torch passes their warnings on to the thread that
    called `backward`.

    Torch does not warn of explicit waits such as `torch.cuda.synchronize`, and does not say which
    function has synced. Therefore these functions are wrapped while the detector is active. A
    wrapper also measures how long a method waits that reads values. If torch.compile is in use,
    functions of the `torch` module are not wrapped, since they would have to be compiled again.
    """

    would_sync = False

    def __init__(
        self,
        report: ReportSync,
        *,
        clock: Callable[[], int] = time.perf_counter_ns,
        device: Any = torch.cuda,
    ) -> None:
        self._report = report
        self._clock = clock
        self._device = device
        self._mode_before: int | None = None
        self._thread = 0
        self._wrappers = Wrappers()
        self._call: str | None = None
        self._syncs_of_call: list[HostSync] = []
        self._reporting_ns = 0

    def start(self) -> bool:
        """Begin to report syncs of the current thread.

        Returns False, and does nothing, if the user has set torch to raise at every sync.
        """
        mode_before = int(self._device.get_sync_debug_mode())
        if mode_before == _RAISES:
            return False
        with warnings.catch_warnings():
            # Torch warns once that this mode does not find all syncs.
            warnings.filterwarnings("ignore", message=_PROTOTYPE_WARNING)
            self._device.set_sync_debug_mode("warn")
        self._mode_before = mode_before
        self._thread = threading.get_ident()
        warnings.filterwarnings("always", message=MESSAGE)
        self._wrappers.call_instead(warnings, "showwarning", self._show_warning)
        for owner, operation in synchronize_calls():
            self._wrappers.replace(owner, "synchronize", self._timed_as(operation))
        for name in sorted(_NAMED_METHODS):
            self._wrappers.replace(torch.Tensor, name, self._timed_as(NAMES.get(name, name)))
        for name in () if counters() else _NAMED_FUNCTIONS:
            self._wrappers.replace(torch, name, self._timed_as(name))
        return True

    def stop(self) -> None:
        """Restore the debug mode and torch's functions."""
        if self._mode_before is None:
            return
        self._device.set_sync_debug_mode(self._mode_before)
        self._mode_before = None
        self._wrappers.restore()

    def _show_warning(self, original: Any, message: Any, *args: Any, **kwargs: Any) -> None:
        if not str(message).startswith(MESSAGE):
            original(message, *args, **kwargs)
        # Torch does warn of some explicit waits, such as a stream's. The wrapper of such a wait
        # has reported it already.
        elif self._call not in SYNCHRONIZE and threading.get_ident() == self._thread:
            self._report_sync(self._call or "synchronizing operation")

    def _timed_as(self, operation: str) -> Callable[[Any], Any]:
        def wrap(original: Any) -> Any:
            def timed(*args: Any, **kwargs: Any) -> Any:
                if self._call is not None or threading.get_ident() != self._thread:
                    return original(*args, **kwargs)
                self._call = _operation_name(operation, args)
                if operation in SYNCHRONIZE:
                    self._report_sync(operation)
                return self._time(original, args, kwargs)

            # Compiled code may call the wrapper; dynamo must not try to compile it.
            disable: Any = torch.compiler.disable
            return disable(timed)

        return wrap

    def _time(self, original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self._reporting_ns = 0
        begun_ns = self._clock()
        try:
            return original(*args, **kwargs)
        finally:
            # A sync is reported during the call. The time of reporting is not part of its wait.
            took_ns = self._clock() - begun_ns - self._reporting_ns
            syncs = self._syncs_of_call
            self._call, self._syncs_of_call = None, []
            if syncs:
                # Several syncs in one call share its time, which is counted once.
                syncs[0].blocked_ns = took_ns

    def _report_sync(self, operation: str) -> None:
        begun_ns = self._clock()
        sync = self._report(operation)
        self._reporting_ns += self._clock() - begun_ns
        if sync is not None and self._call is not None:
            self._syncs_of_call.append(sync)


def _operation_name(operation: str, args: tuple[Any, ...]) -> str:
    """Return the name of a call as the result shows it, a copy named by its direction."""
    if operation not in _COPIES:
        return operation
    source = args[0] if args else None
    return "cpu" if isinstance(source, torch.Tensor) and source.is_cuda else PAGEABLE_COPY
