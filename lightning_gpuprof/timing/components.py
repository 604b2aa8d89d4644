"""A named component of a training step: one region on the host's clock, the device's and NVTX."""

import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import torch
from typing_extensions import override

from lightning_gpuprof.session.guard import attempt
from lightning_gpuprof.timing.device_marking import DeviceMarking
from lightning_gpuprof.timing.phase_clock import Inside
from lightning_gpuprof.timing.step_timeline import StepTimeline


class Part(AbstractContextManager[None]):
    """What a named component is entered as; ends with `__exit__` in the step in which it began."""

    @property
    def timed(self) -> bool:
        """Whether the step now running is marked: else to enter is to do nothing."""
        return True


class ActiveComponents:
    """The components of a run that is timing in this process, made as they are named."""

    def __init__(self, make: Callable[[str], Part]) -> None:
        self.thread = threading.get_ident()
        self._make = make
        self._made: dict[str, Part] = {}

    def get(self, name: str) -> Part:
        """Return the component of a name."""
        if name not in self._made:
            self._made[name] = self._make(name)
        return self._made[name]

    def activate(self) -> None:
        """Let `region` use these."""
        _ACTIVE.append(self)

    def deactivate(self) -> None:
        """Let `region` use those that it used before."""
        if self in _ACTIVE:
            _ACTIVE.remove(self)


class _Entered(NamedTuple):
    """What was opened, to be closed again: each None where it was not."""

    region: Inside | None
    marking: DeviceMarking | None
    range: Any
    annotation: Any


class Component(Part):
    """Charges its body to a part, of this name, of whatever phase it is entered in.

    It may be entered again while it is open, as by a module that calls itself. In a step that is
    not marked it is an NVTX range alone, which tools outside look for in every step.

    Args:
        timeline: Its clock is charged, in steps that are marked.
        name: As in `part/<phase>/<name>`, the NVTX range and the trace's annotation.
        marking: The device's marks, where there are any.
    """

    def __init__(self, timeline: StepTimeline, name: str, marking: DeviceMarking | None) -> None:
        self.name = name
        self._timeline = timeline
        self._region = Inside(timeline.clock, name)
        self._marking = marking
        self._part = 0 if marking is None else marking.marks.part(name)
        self._entered: list[_Entered] = []
        self._on_gpu = torch.cuda.is_available()
        self._nvtx: Any = attempt(_nvtx, None) if self._on_gpu else None

    @property
    @override
    def timed(self) -> bool:
        return self._timeline.marked

    @override
    def __enter__(self) -> None:
        if not self._timeline.marked:
            self._entered.append(_Entered(None, None, self._open_range(), None))
            return
        self._region.__enter__()
        # Events recorded while a CUDA graph is being captured would belong to the graph.
        capturing = self._on_gpu and torch.cuda.is_current_stream_capturing()
        marking = None if capturing else self._marking
        if marking is not None:
            marking.opens_part(self._part)
        range_, annotation = self._open_range(), self._open_annotation()
        self._entered.append(_Entered(self._region, marking, range_, annotation))

    @override
    def __exit__(self, *raised: Any) -> None:
        if not self._entered:
            return
        region, marking, range_, annotation = self._entered.pop()
        if annotation is not None and annotation[0] == threading.get_ident():
            annotation[1].__exit__(None, None, None)
        if range_ is not None:
            self._nvtx.range_end(range_)
        if marking is not None:
            marking.closes_part(self._part)
        if region is not None:
            region.__exit__(None, None, None)

    def _open_range(self) -> Any:
        # A range with a handle: unlike pushed ones these need not be nested.
        return None if self._nvtx is None else self._nvtx.range_start(self.name)

    def _open_annotation(self) -> Any:
        """Show in a trace that records just now; at other times it would cost a microsecond."""
        profiler = sys.modules.get("torch.autograd.profiler")
        if not getattr(profiler, "_is_profiler_enabled", False):
            return None
        annotation: Any = torch.profiler.record_function(self.name)
        annotation.__enter__()
        return threading.get_ident(), annotation


def _nvtx() -> Any:
    """Return the NVTX functions; raises where this build of torch has none."""
    nvtx: Any = torch.cuda.nvtx
    nvtx.range_end(nvtx.range_start("lightning_gpuprof"))
    return nvtx


_ACTIVE: list[ActiveComponents] = []


def active_component(name: str) -> AbstractContextManager[None]:
    """Return the component of a name in the run that is timing in this thread, or a null one."""
    if not _ACTIVE or _ACTIVE[-1].thread != threading.get_ident():
        return nullcontext()
    return _ACTIVE[-1].get(name)
