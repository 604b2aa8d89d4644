"""One recording of torch.profiler that gives way to any other profiler in the process."""

import gc
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.autograd.profiler
from torch.profiler import ProfilerActivity, record_function

_STEP = "ProfilerStep"
_LEVEL, _SILENT = "KINETO_LOG_LEVEL", "6"
_OF_CYCLES = "Warning: Profiler clears events at the end of each cycle"
"""What torch 2.11 warns of in every recording, also of one that has no second cycle."""
_TEARDOWN, _YES, _NO = "TEARDOWN_CUPTI", "1", "0"
"""Kineto leaves CUPTI attached behind a recording, which slows all launches for the rest of the
process, unless this says otherwise (docs/adr/0045)."""
_FIRST_SAFE_CUDA = (12, 6)
"""With older ones a process that replays CUDA graphs may crash in its next recording."""
# Untyped, because what a recording takes and how it gives way are torch's private matters.
_autograd_profiler: Any = torch.autograd.profiler
_torch_profiler: Any = torch.profiler


def busy_profiler() -> str | None:
    """Name the profiler that is recording or warming up in this process; None where free.

    Kineto holds one session per process. Whoever starts a second one takes the first one's
    away, and torch 2.13 then crashes the process when the first one is exported.
    """
    if torch._C._autograd._profiler_enabled():
        return "a torch profiler that is recording"
    if _STEP not in _autograd_profiler.KinetoStepTracker._step_dict:
        return None  # no torch.profiler.profile has been made: spares the walk over all objects
    for thing in gc.get_objects():
        if isinstance(thing, torch.profiler.profile) and thing.step_rec_fn is not None:
            return "a torch.profiler.profile that was started and waits in its schedule"
    return None


def traced(name: str) -> Any:
    """Return a span for a trace that records just now; None at other times, which costs nothing."""
    return record_function(name) if _autograd_profiler._is_profiler_enabled else None


class TorchTrace:
    """Records operators, kernels and copies from `start` to `stop`; used once.

    Where somebody else begins to profile meanwhile, `on_intruder` is called first and must end
    this recording: theirs goes on as if this one had never been.

    Args:
        device_type: Device to record beside the CPU: "cuda" (also for HIP), "xpu" or "cpu".
        record_shapes: Record the shapes of operators' inputs.
        profile_memory: Record allocations and frees.
        with_stack: Record Python frames: large and slow, yet names lines of code.
        on_intruder: Called once when another profiler is about to begin.
    """

    def __init__(
        self,
        *,
        device_type: str,
        record_shapes: bool,
        profile_memory: bool,
        with_stack: bool,
        on_intruder: Callable[[], None],
    ) -> None:
        self._profiler = _torch_profiler._KinetoProfile(
            activities=_activities(device_type),
            record_shapes=record_shapes,
            profile_memory=profile_memory,
            with_stack=with_stack,
            with_modules=with_stack,
        )
        self._on_cuda = device_type == "cuda"
        self._on_intruder = on_intruder
        self._intruded = False
        self._original: Callable[..., Any] | None = None
        self._step: Any = None
        self._started = False

    def prepare(self) -> None:
        """Warm up: load the tracing library, whose first use is slow, and record nothing yet."""
        if self._on_cuda:
            _detach_cupti(True)  # one that was detached is then attached again
        with _quiet(), warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=_OF_CYCLES)
            self._profiler.prepare_trace()
        self._watch()

    def start(self) -> None:
        """Record from now on."""
        self._profiler.start_trace()
        self._started = True

    def begin_step(self, number: int) -> None:
        """Open the span `ProfilerStep#<number>`, which trace readers split a trace by."""
        self._step = record_function(f"{_STEP}#{number}")
        self._step.__enter__()

    def end_step(self) -> None:
        """Close the open step's span; does nothing where none is open."""
        if self._step is not None:
            self._step.__exit__(None, None, None)
            self._step = None

    def stop(self, *, detach: bool = True) -> None:
        """Record no more; a recording that was only prepared is dropped.

        Args:
            detach: What a recording has attached to the device's driver, for the steps to come.
                That happens in a later call of the driver's: a recording that begins meanwhile
                would lose its kernels, and a process that ends might wait.

        Raises:
            RuntimeError: Somebody took the recording away unseen, so there is nothing to export.
        """
        self._unwatch()
        if not self._started:
            self._profiler.start_trace()
        elif not torch._C._autograd._profiler_enabled():
            # Exporting what is gone would crash the process, not raise.
            raise RuntimeError("another profiler ended this recording; it cannot be exported")
        self._started = False
        if self._on_cuda:
            _detach_cupti(detach and not self._intruded)
        self._profiler.stop_trace()

    def export(self, path: str) -> None:
        """Write the recorded events as plain JSON, without a Python object per event.

        Raises:
            RuntimeError: The file cannot be written.
        """
        self._profiler.export_chrome_trace(path)

    def _watch(self) -> None:
        self._original = _autograd_profiler._prepare_profiler
        _autograd_profiler._prepare_profiler = self._give_way

    def _unwatch(self) -> None:
        if self._original is not None and _autograd_profiler._prepare_profiler == self._give_way:
            _autograd_profiler._prepare_profiler = self._original
        self._original = None

    def _give_way(self, *args: Any, **kwargs: Any) -> Any:
        original = self._original
        self._unwatch()
        if original is None:
            original = _autograd_profiler._prepare_profiler
        else:
            self._intruded = True
            self._on_intruder()
        return original(*args, **kwargs)


_said_of_cupti: str | None = None


def _detach_cupti(wanted: bool) -> None:
    """Say whether Kineto detaches CUPTI from here on; who else has said so keeps it."""
    global _said_of_cupti
    cuda = torch.version.cuda
    if cuda is None or _numbers(cuda) < _FIRST_SAFE_CUDA:
        return
    if os.environ.get(_TEARDOWN) == _said_of_cupti:
        os.environ[_TEARDOWN] = _said_of_cupti = _YES if wanted else _NO


def _numbers(version: str) -> tuple[int, ...]:
    """Return a version's numbers.

    >>> _numbers("12.6")
    (12, 6)
    """
    return tuple(int(part) for part in version.split(".") if part.isdigit())


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep Kineto's two lines per recording ("USDT: ... profiler_start") off the terminal.

    They are of its highest level, so its errors go with them: what is missing from a trace then
    is found by the trace's own analysis (lost-kernels). Kineto reads the level once, when the
    process first records; who has set it keeps it.
    """
    if _LEVEL in os.environ:
        yield
        return
    os.environ[_LEVEL] = _SILENT
    try:
        yield
    finally:
        os.environ.pop(_LEVEL, None)


def _activities(device_type: str) -> list[ProfilerActivity]:
    device = {"cuda": ProfilerActivity.CUDA, "xpu": ProfilerActivity.XPU}.get(device_type)
    wanted = [ProfilerActivity.CPU, *([device] if device is not None else [])]
    return [activity for activity in wanted if activity in _torch_profiler.supported_activities()]
