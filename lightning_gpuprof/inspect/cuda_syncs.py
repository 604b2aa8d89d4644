"""Finds host syncs on CUDA and HIP: torch warns of each, under its sync debug mode."""

import threading
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch

from lightning_gpuprof.adapters.dynamo import counters
from lightning_gpuprof.inspect.advice import PAGEABLE_COPY
from lightning_gpuprof.inspect.places import Hit, Report
from lightning_gpuprof.inspect.sync_calls import NAMES, READS, SYNCHRONIZE, synchronize_calls
from lightning_gpuprof.runtime.patches import Patches

MESSAGE = "called a synchronizing CUDA operation"
"""How torch's warning begins, on HIP too."""
_PROTOTYPE = "Synchronization debug mode"
_ERROR = 2
_NAMED_METHODS = READS | {"to", "cuda", "nonzero", "masked_select", "unique", "repeat_interleave"}
_COPIES = ("to", "cuda", "tensor", "as_tensor")
_NAMED_FUNCTIONS = ("tensor", "as_tensor", "where", "nonzero", "masked_select", "unique", "equal")


class CudaSyncDetector:
    """Reports the syncs of a device by `torch.cuda.set_sync_debug_mode`.

    Other threads' warnings are not reported, since they do not hold up training; torch hands those
    of autograd's threads to the thread that called `backward`. Explicit waits, which bring no
    warning, are replaced meanwhile. Methods that read values are timed. Functions that sync are
    named, but not after torch.compile, which would compile anew.
    """

    would_sync = False

    def __init__(
        self,
        report: Report,
        *,
        clock: Callable[[], int] = time.perf_counter_ns,
        device: Any = torch.cuda,
    ) -> None:
        self._report = report
        self._clock = clock
        self._device = device
        self._before: int | None = None
        self._thread = 0
        self._patches = Patches()
        self._call: str | None = None
        self._hits: list[Hit] = []
        self._reporting_ns = 0

    def start(self) -> bool:
        """Begin to report this thread; not where the user has made each sync an error."""
        before = int(self._device.get_sync_debug_mode())
        if before == _ERROR:
            return False
        with warnings.catch_warnings():
            # Torch says once that not all syncs are found.
            warnings.filterwarnings("ignore", message=_PROTOTYPE)
            self._device.set_sync_debug_mode("warn")
        self._before = before
        self._thread = threading.get_ident()
        warnings.filterwarnings("always", message=MESSAGE)
        self._patches.instead(warnings, "showwarning", self._hearing)
        for owner, operation in synchronize_calls():
            self._patches.put(owner, "synchronize", self._timing(operation))
        for name in sorted(_NAMED_METHODS):
            self._patches.put(torch.Tensor, name, self._timing(NAMES.get(name, name)))
        for name in () if counters() else _NAMED_FUNCTIONS:
            self._patches.put(torch, name, self._timing(name))
        return True

    def stop(self) -> None:
        """Put the debug mode and torch's functions back."""
        if self._before is None:
            return
        self._device.set_sync_debug_mode(self._before)
        self._before = None
        self._patches.restore()

    def _hearing(self, original: Any, message: Any, *args: Any, **kwargs: Any) -> None:
        if not str(message).startswith(MESSAGE):
            original(message, *args, **kwargs)
        # Torch also warns of some explicit waits, of a stream's: they are reported already.
        elif self._call not in SYNCHRONIZE and threading.get_ident() == self._thread:
            self._found(self._call or "synchronizing operation")

    def _timing(self, operation: str) -> Callable[[Any], Any]:
        def wrap(original: Any) -> Any:
            def timed(*args: Any, **kwargs: Any) -> Any:
                if self._call is not None or threading.get_ident() != self._thread:
                    return original(*args, **kwargs)
                self._call = _shown(operation, args)
                if operation in SYNCHRONIZE:
                    self._found(operation)
                return self._time(original, args, kwargs)

            # dynamo must not try to compile it where compiled code calls it.
            disable: Any = torch.compiler.disable
            return disable(timed)

        return wrap

    def _time(self, original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self._reporting_ns = 0
        begun = self._clock()
        try:
            return original(*args, **kwargs)
        finally:
            # Reporting a call in the middle of it is no part of its wait.
            took, self._call = self._clock() - begun - self._reporting_ns, None
            hits, self._hits = self._hits, []
            if hits:  # several waits in one call: its time is counted once
                hits[0].blocked_ns = took

    def _found(self, operation: str) -> None:
        begun = self._clock()
        hit = self._report(operation)
        self._reporting_ns += self._clock() - begun
        if hit is not None and self._call is not None:
            self._hits.append(hit)


def _shown(operation: str, args: tuple[Any, ...]) -> str:
    """Return a call's name as the rows show it: a copy by its direction, as on a CPU."""
    if operation not in _COPIES:
        return operation
    source = args[0] if args else None
    return "cpu" if isinstance(source, torch.Tensor) and source.is_cuda else PAGEABLE_COPY
