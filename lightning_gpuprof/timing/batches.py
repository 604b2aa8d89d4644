"""What is known of a training batch is noted as it begins."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Protocol

from torch import Tensor
from typing_extensions import override

from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.session.guard import attempt
from lightning_gpuprof.session.hooks import BatchCalls
from lightning_gpuprof.session.output import RunOutput
from lightning_gpuprof.timing.phase_clock import Region
from lightning_gpuprof.timing.region_paths import close_code, open_code, swap_code
from lightning_gpuprof.timing.step_timeline import UNKNOWN_SAMPLES, StepTimeline

_ROWS = (tuple, list)


class Run(Protocol):
    """What a batch's beginning is noted in.

    Attributes:
        counters: Dynamo's, once it is there.
        calls: Counts batches.
        left: Batches until a window is full.
        first: The next batch is its epoch's first.
        begin_elsewhere: Begins a batch that does not follow the last one in its epoch.
        look_for_compiling: Called before each batch where there is anything to look at.
    """

    timeline: StepTimeline
    output: RunOutput
    counters: Mapping[str, Any] | None
    calls: BatchCalls
    left: int
    first: bool
    epoch_loop: Any
    begin_elsewhere: Callable[[], None]
    look_for_compiling: Callable[[], None]


class Batch(Region):
    """A batch is being trained.

    What is known of its step is noted as it begins: for every step, when there is something of
    it in the processor's caches. The loader and the copy to the device have just had the batch in
    their hands; after it has been trained nothing is left there. Each function that is called
    costs a microsecond or two all the same, so all is in this one, with no guard: what may
    fail is called behind it.

    Args:
        region: Its region.
        run: Where it is noted.
        on_due: Called after a batch that raised nothing, where the timeline's `due` was set.
        own: The slot of the timer's own time.
        marked: Its step is.
    """

    __slots__ = (
        "_becomes", "_becomes_own", "_marked", "_on_due", "_own_closes", "_own_opens", "_run",
        "_timeline",
    )  # fmt: skip

    def __init__(
        self, region: Region, run: Run, on_due: Callable[[], object], *, own: int, marked: bool
    ) -> None:
        super().__init__(region.clock, region.slot)
        self._run, self._timeline, self._on_due = run, run.timeline, on_due
        self._marked = marked
        self._becomes, self._becomes_own = swap_code(region.slot), swap_code(own)
        self._own_opens, self._own_closes = open_code(own), close_code(own)

    @override
    def __enter__(self) -> None:
        marked = self._marked
        if marked:
            self._times.append(self._now())
            self._codes.append(self._own_opens)
        run = self._run
        timeline, output, counters = self._timeline, run.output, run.counters
        if counters or counters is None:
            run.look_for_compiling()
        if run.first or timeline.ran or timeline.begun:
            run.begin_elsewhere()
        else:
            batch = run.epoch_loop._results.batch
            first = batch[0] if type(batch) in _ROWS and batch else batch
            try:  # costs nothing; `size(0)` and `dim()` instead are 0.1 us more, in the caches
                shape = first.shape if type(first) is Tensor else ()
            except RuntimeError:  # a nested tensor
                shape = ()
            # An index into `torch.Size` is a call of torch's, this is none.
            samples = next(iter(shape), None)
            timeline.samples.append(size_of(batch) if samples is None else samples)
            timeline.begun = True
        if output.step_flags:
            timeline.flags |= output.step_flags
            output.step_flags = 0
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


class PassedOver:
    """A batch is being trained in a step that is not marked: no region that anybody watches."""

    __slots__ = ("_batch",)

    def __init__(self, batch: Batch) -> None:
        self._batch = batch

    def __enter__(self) -> None:
        self._batch.__enter__()

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self._batch.__exit__(kind, error, trace)


class Batches:
    """Makes what is entered around a run's batches; see `AroundBatches`.

    Args:
        run: Where they are noted.
        on_due: See `Batch`.
    """

    def __init__(self, run: Run, on_due: Callable[[], object]) -> None:
        self._run, self._on_due = run, on_due

    def marked(self, region: Region, own: int) -> Region:
        """Return that of marked steps."""
        return Batch(region, self._run, self._on_due, own=own, marked=True)

    def passed_over(self) -> PassedOver:
        """Return that of steps that are not marked."""
        clock = self._run.timeline.clock
        region = clock.region(Phase.OTHER)
        return PassedOver(Batch(region, self._run, self._on_due, own=region.slot, marked=False))


def batch_size(batch: Any) -> int:
    """Return the first dimension of the first tensor in a batch, or `UNKNOWN_SAMPLES`.

    >>> from torch import zeros
    >>> batch_size((zeros(8, 3), zeros(8)))
    8
    >>> batch_size({"x": zeros(4)}), batch_size("text"), batch_size(zeros(()))
    (4, -1, -1)
    """
    while not isinstance(batch, Tensor):
        if isinstance(batch, (list, tuple)) and batch:
            batch = batch[0]
        elif isinstance(batch, Mapping) and batch:
            batch = next(iter(batch.values()))
        else:
            return UNKNOWN_SAMPLES
    return batch.size(0) if batch.dim() else UNKNOWN_SAMPLES


def size_of(batch: Any) -> int:
    """Return `batch_size`, also where a user's own type of batch fails when it is asked."""
    return attempt(partial(batch_size, batch), UNKNOWN_SAMPLES)
