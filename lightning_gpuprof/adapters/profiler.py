"""One recording of torch.profiler that gives way to any other profiler in the process.

Private names, seen in torch 2.2 to 2.13. Where one is missing nothing is recorded:
    torch.profiler._KinetoProfile: a recording without a schedule of its own
    torch.autograd.profiler._prepare_profiler: called when any recording begins
    torch.autograd.profiler.KinetoStepTracker._step_dict: names ProfilerStep once a profiler exists
    torch.autograd.profiler._is_profiler_enabled, torch._C._autograd._profiler_enabled
    torch.profiler.profile.step_rec_fn: the open step of a started profiler
"""

import gc
from collections.abc import Callable
from typing import Any

import torch
import torch.autograd.profiler
from torch.profiler import ProfilerActivity, record_function

from lightning_gpuprof.adapters.dynamo import counters

_STEP = "ProfilerStep"
_autograd_profiler: Any = torch.autograd.profiler
_torch_profiler: Any = torch.profiler
_PAUSED = (ProfilerActivity.CPU, ProfilerActivity.CUDA, ProfilerActivity.XPU)
"""Of fewer torch 2.13 warns at each call."""
CAN_PAUSE = hasattr(torch.profiler.profile, "toggle_collection_dynamic")
CAN_RUN_UNCOMPILED = hasattr(torch.compiler, "set_stance")


def busy_profiler() -> str | None:
    """Name the profiler that is recording or warming up in this process; None where free.

    Kineto holds one session per process. A second recording takes the session away from the
    first, and torch 2.13 crashes the process when the first is exported.
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
    enabled = getattr(_autograd_profiler, "_is_profiler_enabled", False)
    return record_function(name) if enabled else None


class TorchTrace:
    """Records operators, kernels and copies from `start` to `stop`; used once.

    Where another profiler begins meanwhile, `on_intruder` is called first and must end this
    recording: the other profiler works as if this recording had never been. Where a call fails,
    torch is left alone from then on: to stop what was never prepared crashes the process.

    `device_type` is recorded beside the CPU: "cuda" (also for HIP) or "xpu". With `eager` compiled
    code runs uncompiled from `prepare` to `stop`. The other options are torch's.
    """

    def __init__(
        self,
        *,
        device_type: str,
        record_shapes: bool,
        profile_memory: bool,
        with_stack: bool,
        eager: bool = False,
        on_intruder: Callable[[], None],
    ) -> None:
        self._profiler = _torch_profiler._KinetoProfile(
            activities=_activities(device_type),
            record_shapes=record_shapes,
            profile_memory=profile_memory,
            with_stack=with_stack,
            with_modules=with_stack,
        )
        self._on_intruder = on_intruder
        self._eager, self._stance = eager, None
        self._original: Callable[..., Any] | None = None
        self._step: Any = None
        self._prepared = self._started = False

    def prepare(self) -> None:
        """Warm up: load the tracing library, whose first use is slow, and record nothing yet."""
        if self._eager and counters() is not None:  # else nothing is compiled
            self._stance = torch.compiler.set_stance("force_eager")
        self._profiler.prepare_trace()
        self._prepared = True
        self._original = _autograd_profiler._prepare_profiler
        _autograd_profiler._prepare_profiler = self._give_way

    def start(self) -> None:
        """Record from now on."""
        self._prepared = False
        try:
            self._profiler.start_trace()
        finally:
            self._started = self._records()

    def collect(self, on: bool) -> None:
        """Record nothing for a while, or go on; for torch 2.5 and newer, see `CAN_PAUSE`."""
        if CAN_PAUSE and self._started:
            self._profiler.toggle_collection_dynamic(on, _PAUSED)

    def begin_step(self, number: int) -> None:
        """Open the span `ProfilerStep#<number>`, which trace readers split a trace by."""
        self._step = record_function(f"{_STEP}#{number}")
        self._step.__enter__()

    def end_step(self) -> None:
        """Close the open step's span; does nothing where none is open."""
        if self._step is not None:
            self._step.__exit__(None, None, None)
            self._step = None

    def stop(self) -> None:
        """Record no more; a recording that was only prepared is dropped."""
        self._restore()
        stance, self._stance = self._stance, None
        if stance is not None:
            stance.__exit__(None, None, None)
        try:
            if self._prepared:
                self.start()  # Kineto leaves its warm-up by no other way
            elif self._started and not self._records():
                # Exporting what is gone would crash the process, not raise.
                raise RuntimeError("another profiler ended this recording; it cannot be exported")
        finally:
            started, self._started = self._started, False
            if started and self._records():
                self._profiler.stop_trace()

    def export(self, path: str) -> None:
        """Write the recorded events as plain JSON, without a Python object per event."""
        self._profiler.export_chrome_trace(path)

    def _records(self) -> bool:
        return bool(torch._C._autograd._profiler_enabled())

    def _restore(self) -> None:
        if self._original is not None and _autograd_profiler._prepare_profiler == self._give_way:
            _autograd_profiler._prepare_profiler = self._original
        self._original = None

    def _give_way(self, *args: Any, **kwargs: Any) -> Any:
        original = self._original
        self._restore()
        if original is None:
            original = _autograd_profiler._prepare_profiler
        else:
            self._on_intruder()
        return original(*args, **kwargs)


def _activities(device_type: str) -> list[ProfilerActivity]:
    device = {"cuda": ProfilerActivity.CUDA, "xpu": ProfilerActivity.XPU}.get(device_type)
    wanted = [ProfilerActivity.CPU, *([device] if device is not None else [])]
    return [activity for activity in wanted if activity in _torch_profiler.supported_activities()]
