"""A recording with torch.profiler that gives way to any other profiler in the process.

Private names in torch 2.2 to 2.13. If one is missing, nothing is recorded:
    torch.profiler._KinetoProfile: a recording without a schedule of its own
    torch.autograd.profiler._prepare_profiler: called when any recording begins
    torch.autograd.profiler.KinetoStepTracker._step_dict: has "ProfilerStep" once a profiler exists
    torch.autograd.profiler._is_profiler_enabled, torch._C._autograd._profiler_enabled
    torch.profiler.profile.step_rec_fn: the open step of a profiler that has started
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
"""The activities to pause. With fewer of them, torch 2.13 shows a warning at every call."""
CAN_PAUSE = hasattr(torch.profiler.profile, "toggle_collection_dynamic")
CAN_RUN_UNCOMPILED = hasattr(torch.compiler, "set_stance")


def busy_profiler() -> str | None:
    """Describe the profiler that is active in this process; None if there is none.

    Kineto has a single session per process. A second recording takes the session away from the
    first, and torch 2.13 crashes the process when the first is exported.
    """
    # The first is true in the recording thread only, the second in all threads.
    if torch._C._autograd._profiler_enabled() or _is_enabled():
        return "a torch profiler that is recording"
    if _STEP not in _autograd_profiler.KinetoStepTracker._step_dict:
        return None  # no torch.profiler.profile was ever created, so none has to be searched for
    for item in gc.get_objects():
        # Unlike `isinstance`, `type` does not ask a proxy whose object is gone, which would raise.
        if issubclass(type(item), torch.profiler.profile) and item.step_rec_fn is not None:
            return "a torch.profiler.profile that was started and waits in its schedule"
    return None


def traced(name: str) -> Any:
    """Return a span for the trace that is being recorded, or None if there is none."""
    return record_function(name) if _is_enabled() else None


def _is_enabled() -> bool:
    return bool(getattr(_autograd_profiler, "_is_profiler_enabled", False))


class TorchTrace:
    """Records operators, kernels and copies from `start` to `stop`. It can be used once.

    If a call of torch fails, torch is left alone from then on, since stopping what was never
    prepared crashes the process.

    Args:
        device_type: The device that is recorded besides the CPU: "cuda" (also for HIP) or "xpu".
        record_shapes: As for torch.profiler.
        profile_memory: As for torch.profiler.
        with_stack: As for torch.profiler.
        eager: Whether compiled code runs uncompiled from `prepare` to `stop`.
        on_intruder: Called when another profiler is about to begin. It must end this recording, so
            that the other profiler works as it would without it.
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
        if self._eager and counters() is not None:  # otherwise nothing is compiled
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
        """Pause the recording, or go on. Needs torch 2.5, see `CAN_PAUSE`."""
        if CAN_PAUSE and self._started:
            self._profiler.toggle_collection_dynamic(on, _PAUSED)

    def begin_step(self, number: int) -> None:
        """Open the span `ProfilerStep#<number>`, by which readers split a trace into steps."""
        self._step = record_function(f"{_STEP}#{number}")
        self._step.__enter__()

    def end_step(self) -> None:
        """Close the span of the open step, if there is one."""
        if self._step is not None:
            self._step.__exit__(None, None, None)
            self._step = None

    def stop(self) -> None:
        """End the recording. A recording that was only prepared is discarded."""
        self._restore()
        stance, self._stance = self._stance, None
        if stance is not None:
            stance.__exit__(None, None, None)
        try:
            if self._prepared:
                self.start()  # there is no other way to end Kineto's warm-up
            elif self._started and not self._records():
                # An export would not raise an error, but crash the process.
                raise RuntimeError("another profiler ended this recording; it cannot be exported")
        finally:
            started, self._started = self._started, False
            if started and self._records():
                self._profiler.stop_trace()

    def export(self, path: str) -> None:
        """Write the recorded events as plain JSON. No Python objects are created for them."""
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
