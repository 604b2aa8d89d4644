"""The region of a training batch, which notes the facts of the step when it opens."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from torch import Tensor
from typing_extensions import override

from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.runtime.guard import attempt
from lightning_gpuprof.runtime.hooks import PeriodicCalls
from lightning_gpuprof.tensors import first_shape
from lightning_gpuprof.timing.phase_clock import Region
from lightning_gpuprof.timing.region_paths import CLOSE, OPEN, SWAP, code
from lightning_gpuprof.timing.step_timeline import StepTimeline

_ROWS = (tuple, list)


class BatchState:
    """The state that the regions of a session's batches share.

    Attributes:
        timeline: The timeline of the session.
        calls: The periodic calls, for which the batches are counted here.
        first: Whether the next batch is the first of an epoch or of a new iterator.
        left: Batches until a window may be full.
        counters: The counters of torch.compile; None while the program has not imported it.
        holder: The object of Lightning's whose `batch` is the current batch.
        begin_special: Called instead of the quick way in `Batch`, for batches that need more.
        note_compiling: Called if torch.compile may have compiled something.
        on_due: Called after a batch at which a window or a periodic call is due.
    """

    __slots__ = (
        "begin_special", "calls", "counters", "first", "holder", "left", "note_compiling",
        "on_due", "timeline",
    )  # fmt: skip

    def __init__(
        self,
        timeline: StepTimeline,
        calls: PeriodicCalls,
        holder: Any,
        *,
        begin_special: Callable[[], object],
        note_compiling: Callable[[], object],
        on_due: Callable[[], object],
    ) -> None:
        self.timeline, self.calls, self.holder = timeline, calls, holder
        self.first = True
        self.left = 2  # since a step ends later than its batch
        self.counters: Mapping[str, Any] | None = None
        self.begin_special, self.note_compiling = begin_special, note_compiling
        self.on_due = on_due


class Batch(Region):
    """The region in which a batch is trained.

    The facts of the step are noted when the region opens, since the batch is in the processor's
    caches then. All of it is a single function without a guard, because every further call costs a
    microsecond or two (ADR 42). In a step that is not timed by phase, no time is charged.
    """

    __slots__ = (
        "_becomes",
        "_becomes_own",
        "_on_due",
        "_own_closes",
        "_own_opens",
        "_state",
        "_timed",
        "_timeline",
    )  # fmt: skip

    def __init__(self, region: Region, state: BatchState, *, timed: bool) -> None:
        super().__init__(region.clock, region.slot)
        own = region.clock.slot(Phase.CALLBACKS, "PhaseTimer") if timed else region.slot
        self._state, self._timeline, self._on_due = state, state.timeline, state.on_due
        self._timed = timed
        self._becomes, self._becomes_own = code(SWAP, region.slot), code(SWAP, own)
        self._own_opens, self._own_closes = code(OPEN, own), code(CLOSE, own)

    @override
    def __enter__(self) -> None:
        timed = self._timed
        if timed:
            self._times.append(self._now())
            self._codes.append(self._own_opens)
        state, timeline = self._state, self._timeline
        counters = state.counters
        if counters or counters is None:
            state.note_compiling()
        if state.first or timeline.ran or timeline.begun:
            state.begin_special()
        else:
            batch = state.holder.batch
            first = batch[0] if type(batch) in _ROWS and batch else batch
            try:  # costs nothing; `size(0)` and `dim()` would take 0.1 us more
                shape = first.shape if type(first) is Tensor else ()
            except RuntimeError:  # a nested tensor
                shape = ()
            timeline.shapes.append(shape or shape_of(batch))
            timeline.begun = True
        if timeline.next_flags:
            timeline.flags |= timeline.next_flags
            timeline.next_flags = 0
        calls = state.calls
        state.left -= 1
        calls.left -= 1
        timeline.due = state.left <= 0 or calls.left <= 0
        if timed:
            self._times.append(self._now())
            self._codes.append(self._becomes)

    @override
    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        timed = self._timed
        if timed:
            self._times.append(self._now())
        timeline = self._timeline
        if kind is None:
            timeline.begun, timeline.ran = False, True
        if kind is not None or not timeline.due:
            if timed:
                self._codes.append(self._closes)
            return
        if timed:
            self._codes.append(self._becomes_own)
        self._on_due()
        if timed:
            self._times.append(self._now())
            self._codes.append(self._own_closes)


def shape_of(batch: Any) -> Sequence[int]:
    """Return the shape of a batch's first tensor. It is empty if it cannot be read."""
    return attempt(partial(first_shape, batch), ())
