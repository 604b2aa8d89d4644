"""The region of a training batch, in which the step's facts are noted as it begins."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from torch import Tensor
from typing_extensions import override

from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.runtime.guard import attempt
from lightning_gpuprof.tensors import first_dimension
from lightning_gpuprof.timing.phase_clock import Region
from lightning_gpuprof.timing.region_paths import CLOSE, OPEN, SWAP, code
from lightning_gpuprof.timing.step_timeline import UNKNOWN_SAMPLES

if TYPE_CHECKING:
    from lightning_gpuprof.timing.run import TimingRun

_ROWS = (tuple, list)


class Batch(Region):
    """A batch is being trained.

    The facts of its step are noted as it begins, while the batch is in the processor's caches, and
    in one function without a guard, for each call costs a microsecond or two (ADR 42). In a step
    that is not marked nothing is charged.
    """

    __slots__ = (
        "_becomes", "_becomes_own", "_marked", "_on_due", "_own_closes", "_own_opens", "_run",
        "_timeline",
    )  # fmt: skip

    def __init__(
        self,
        region: Region,
        run: "TimingRun",
        on_due: Callable[[], object],
        *,
        marked: bool,
    ) -> None:
        super().__init__(region.clock, region.slot)
        own = region.clock.slot(Phase.CALLBACKS, "PhaseTimer") if marked else region.slot
        self._run, self._timeline, self._on_due = run, run.timeline, on_due
        self._marked = marked
        self._becomes, self._becomes_own = code(SWAP, region.slot), code(SWAP, own)
        self._own_opens, self._own_closes = code(OPEN, own), code(CLOSE, own)

    @override
    def __enter__(self) -> None:
        marked = self._marked
        if marked:
            self._times.append(self._now())
            self._codes.append(self._own_opens)
        run = self._run
        timeline, context, counters = self._timeline, run.context, run.counters
        if counters or counters is None:
            run.look_for_compiling()
        if run.first or timeline.ran or timeline.begun:
            run.begin_elsewhere()
        else:
            batch = run.batch_holder.batch
            first = batch[0] if type(batch) in _ROWS and batch else batch
            try:  # costs nothing; `size(0)` and `dim()` instead are 0.1 us more, in the caches
                shape = first.shape if type(first) is Tensor else ()
            except RuntimeError:  # a nested tensor
                shape = ()
            # An index into `torch.Size` is a call of torch's, this is none.
            samples = next(iter(shape), None)
            timeline.samples.append(size_of(batch) if samples is None else samples)
            timeline.begun = True
        if context.step_flags:
            timeline.flags |= context.step_flags
            context.step_flags = 0
        run.left -= 1
        run.calls.left -= 1
        timeline.due = run.left <= 0 or run.calls.left <= 0
        if marked:
            self._times.append(self._now())
            self._codes.append(self._becomes)

    @override
    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        marked = self._marked
        if marked:
            self._times.append(self._now())
        timeline = self._timeline
        if kind is None:
            timeline.begun, timeline.ran = False, True
        if kind is not None or not timeline.due:
            if marked:
                self._codes.append(self._closes)
            return
        if marked:
            self._codes.append(self._becomes_own)
        self._on_due()
        if marked:
            self._times.append(self._now())
            self._codes.append(self._own_closes)


def size_of(batch: Any) -> int:
    """Return a batch's rows, or `UNKNOWN_SAMPLES`, also where a user's own type of it fails."""
    return attempt(partial(first_dimension, batch), UNKNOWN_SAMPLES)
