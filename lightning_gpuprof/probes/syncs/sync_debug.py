"""Sees host syncs on CUDA and HIP: torch warns of each, under its sync debug mode."""

import sys
import threading
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import handle_torch_function, has_torch_function

from lightning_gpuprof.probes.syncs.sync_ops import NAMES, PAGEABLE_COPY, READS, SYNCHRONIZE
from lightning_gpuprof.probes.syncs.sync_watch import Patches, Report, Seen, synchronize_calls

MESSAGE = "called a synchronizing CUDA operation"
"""What torch's warning begins with, on HIP too."""
_PROTOTYPE = "Synchronization debug mode"
_OFF, _ERROR = 0, 2
_NAMED_METHODS = READS | {"to", "cuda", "nonzero", "masked_select", "unique", "repeat_interleave"}
_COPIES = ("to", "cuda", "tensor", "as_tensor")
_NAMED_FUNCTIONS = ("tensor", "as_tensor", "where", "nonzero", "masked_select", "unique", "equal")


class CudaSyncWatch:
    """Reports the syncs of a device by `torch.cuda.set_sync_debug_mode`.

    The setting belongs to the process, as do Python's warnings: both are put back at the end.
    Warnings of other threads (data workers, loggers, the pin-memory thread) are not reported,
    since they do not hold the training thread up; those of autograd's threads torch hands to the
    thread that called `backward`. Explicit waits (`torch.cuda.synchronize`, of streams and
    events), which torch does not warn of, are replaced while watching. Methods that read
    values are timed by the host's clock, which gives what a sync took. Functions of torch's that
    sync have their names told too, but not where torch.compile has been at work: what it compiled
    depends on them, and would be compiled anew.

    Nothing is computed otherwise than without: results stay the same bit by bit.

    Args:
        report: Told of each sync.
        clock: Returns nanoseconds.
        device: Holds `get_sync_debug_mode` and `set_sync_debug_mode`; tests pass a fake.
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
        self._filter: Any = None
        self._call: str | None = None
        self._seen: list[Seen] = []
        self._told_ns = 0

    def start(self) -> bool:
        """Begin to watch this thread; not where the user has made each sync an error."""
        before = int(self._device.get_sync_debug_mode())
        if before == _ERROR:
            return False
        with warnings.catch_warnings():
            # Once per process torch says that not all syncs are found: no news to the user, and
            # an exception where warnings are errors. Hence also before anything is replaced.
            warnings.filterwarnings("ignore", message=_PROTOTYPE)
            self._device.set_sync_debug_mode("warn")
        self._before = before
        self._thread = threading.get_ident()
        self._hear_warnings()
        self._patch()
        return True

    def stop(self) -> None:
        """Put the debug mode, Python's warnings and torch's functions back."""
        if self._before is None:
            return
        # One that was set meanwhile is the user's and stays.
        if int(self._device.get_sync_debug_mode()) == 1:
            self._device.set_sync_debug_mode(self._before)
        self._before = None
        self._patches.restore()
        if self._filter in warnings.filters:
            warnings.filters.remove(self._filter)  # type: ignore[attr-defined]

    def _hear_warnings(self) -> None:
        known = list(warnings.filters)
        warnings.filterwarnings("always", message=MESSAGE)
        self._filter = next((entry for entry in warnings.filters if entry not in known), None)
        self._patches.put(warnings, "showwarning", self._hearing)

    def _patch(self) -> None:
        for owner, name in synchronize_calls():
            self._patches.put(owner, name, self._waiting)
        for name in sorted(_NAMED_METHODS):
            self._patches.put(torch.Tensor, name, self._timing(NAMES.get(name, name)))
        for name in () if _has_compiled() else _NAMED_FUNCTIONS:
            self._patches.put(torch, name, self._timing(name))

    def _hearing(self, original: Any) -> Any:
        def show_warning(message: Any, *args: Any, **kwargs: Any) -> None:
            ours = str(message).startswith(MESSAGE)
            # Of some explicit waits, of a stream's, torch warns too: they are seen already.
            known = self._call == SYNCHRONIZE or threading.get_ident() != self._thread
            if ours and not known:
                self._see(self._call or "synchronizing operation")
            if not ours or self._before != _OFF:  # who asked for warnings sees them still
                original(message, *args, **kwargs)

        return show_warning

    def _timing(self, operation: str) -> Callable[[Any], Any]:
        def wrap(original: Any) -> Any:
            def timed(*args: Any, **kwargs: Any) -> Any:
                if self._call is not None or threading.get_ident() != self._thread:
                    return _as_called(original, args, kwargs)
                return self._time(_shown(operation, args), original, args, kwargs)

            return _not_compiled(timed)

        return wrap

    def _waiting(self, original: Any) -> Any:
        def synchronize(*args: Any, **kwargs: Any) -> Any:
            if self._call is not None or threading.get_ident() != self._thread:
                return original(*args, **kwargs)
            self._call = SYNCHRONIZE
            self._see(SYNCHRONIZE)
            return self._time(SYNCHRONIZE, original, args, kwargs)

        return _not_compiled(synchronize)

    def _time(
        self, operation: str, original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        self._call, self._told_ns = operation, 0
        begun = self._clock()
        try:
            return _as_called(original, args, kwargs)
        finally:
            # Telling where a call comes from, in the middle of it, is no part of its wait.
            took, self._call = self._clock() - begun - self._told_ns, None
            seen, self._seen = self._seen, []
            if seen:  # several waits in one call: its time is counted once
                seen[0].blocked_ns = took

    def _see(self, operation: str) -> None:
        begun = self._clock()
        seen = self._report(operation)
        self._told_ns += self._clock() - begun
        if seen is not None and self._call is not None:
            self._seen.append(seen)


def _has_compiled() -> bool:
    dynamo = sys.modules.get("torch._dynamo.utils")
    return bool(getattr(dynamo, "counters", None))


def _not_compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that dynamo does not try to compile where compiled code calls it."""
    disable: Any = torch.compiler.disable
    kept: Callable[..., Any] = disable(function)
    return kept


def _as_called(original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a function of torch's; an override of it is told the original, which it may know."""
    if has_torch_function(args[:1]):
        return handle_torch_function(original, args[:1], *args, **kwargs)
    return original(*args, **kwargs)


def _shown(operation: str, args: tuple[Any, ...]) -> str:
    """Return a call's name as the rows show it: a copy by its direction, as on a CPU."""
    if operation not in _COPIES:
        return operation
    source = args[0] if args else None
    with torch._C.DisableTorchFunctionSubclass():  # an override hears nothing of the question
        on_device = isinstance(source, torch.Tensor) and source.is_cuda
    return "cpu" if on_device else PAGEABLE_COPY
