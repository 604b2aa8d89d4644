"""Splits the wait for data: the sampler's work, and waiting for worker processes.

What is left of the wait is making a batch, or with workers, taking over what they sent.
"""

from collections.abc import Callable, Iterator
from typing import Any
from weakref import WeakSet

from torch.utils.data import dataloader

from lightning_gpuprof.timing.regions import Context
from lightning_gpuprof.session.guard import attempt

_KNOWN = (dataloader._SingleProcessDataLoaderIter, dataloader._MultiProcessingDataLoaderIter)
"""Subclasses and other loaders are left alone: they may keep state where these do not."""


class TimedIterator:
    """An iterator whose `next` runs inside a region."""

    def __init__(self, inner: Iterator[Any], region: Context) -> None:
        self.inner = inner
        self._region = region

    def __iter__(self) -> "TimedIterator":
        return self

    def __next__(self) -> Any:
        with self._region:
            return next(self.inner)


class TimedPoll:
    """A connection's `poll` inside a region."""

    def __init__(self, poll: Callable[..., bool], region: Context) -> None:
        self.poll = poll
        self._region = region

    def __call__(self, *timeout: float) -> bool:
        """Wait for data."""
        with self._region:
            return self.poll(*timeout)


class LoaderParts:
    """The loaders' iterators that are being timed.

    Nothing that is put into an iterator refers back to it: one that Lightning drops ends its
    workers at once, as it does without us.

    Args:
        sampler: Region of choosing what the next batch holds.
        workers: Region of waiting for a worker process.
    """

    def __init__(self, sampler: Context, workers: Context) -> None:
        self._sampler = sampler
        self._workers = workers
        self._timed: WeakSet[Any] = WeakSet()

    def watch(self, trainer: Any) -> None:
        """Time the iterators of this epoch's training loader."""
        iterators: list[Any] = attempt(
            lambda: trainer.fit_loop._data_fetcher.iterator._iterator.iterators, []
        )
        for iterator in iterators:
            if type(iterator) in _KNOWN:
                self._watch(iterator)

    def mark(self, marked: bool) -> None:
        """Time the sampler, or for now leave it alone; what waits for workers does so anyway."""
        for iterator in self._timed:
            self._time_sampler(iterator) if marked else self._leave_sampler(iterator)

    def restore(self) -> None:
        """Put everything back as it was."""
        for iterator in list(self._timed):
            self._leave_sampler(iterator)
            poll = getattr(getattr(iterator, "_data_queue", None), "_poll", None)
            if isinstance(poll, TimedPoll):
                iterator._data_queue._poll = poll.poll
        self._timed.clear()

    def _time_sampler(self, iterator: Any) -> None:
        indices = iterator._sampler_iter
        if iterator._dataset_kind == dataloader._DatasetKind.Iterable:
            return  # it chooses for itself: its loader's sampler counts, for ever
        if indices is not None and not isinstance(indices, TimedIterator):
            iterator._sampler_iter = TimedIterator(indices, self._sampler)

    def _leave_sampler(self, iterator: Any) -> None:
        if isinstance(iterator._sampler_iter, TimedIterator):
            iterator._sampler_iter = iterator._sampler_iter.inner

    def _watch(self, iterator: Any) -> None:
        self._time_sampler(iterator)
        # With pinned memory a thread takes the batches over: its queue has no such method.
        poll = getattr(getattr(iterator, "_data_queue", None), "_poll", None)
        if poll is not None and not isinstance(poll, TimedPoll):
            iterator._data_queue._poll = TimedPoll(poll, self._workers)
        self._timed.add(iterator)
