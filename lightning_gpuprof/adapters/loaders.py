"""Splits the wait for data into the sampler's work, the wait for worker processes, and the rest.

The rest is making the batch or, with workers, receiving it.

Private names in torch 2.2 to 2.13. The wait for an iterator without them is not split:
    torch.utils.data.dataloader._SingleProcessDataLoaderIter, ._MultiProcessingDataLoaderIter
    DataLoader._iterator, ._get_iterator; the iterators' _sampler_iter, _dataset_kind, _data_queue,
    and its _poll; _workers, without which the workers' memory is unknown
In Lightning 2.4 to 2.6: _data_fetcher of loops, and its CombinedLoader's _iterator;
_combined_loader of loops, and fit_loop._load_combined_loader_states
"""

import sys
from contextlib import AbstractContextManager
from typing import Any
from weakref import WeakSet, ref

from torch.utils.data import IterableDataset, dataloader
from typing_extensions import override

from lightning_gpuprof.adapters.names import reach

RegionLike = AbstractContextManager[Any]

_ITERATORS = tuple(
    kind
    for name in ("_SingleProcessDataLoaderIter", "_MultiProcessingDataLoaderIter")
    if (kind := getattr(dataloader, name, None)) is not None
)
"""The iterators of torch. Subclasses and other iterators are left alone, as their state differs."""
BEFORE_FIRST_ITERATORS = "_load_combined_loader_states"
"""The last method that the fit loop calls before it creates the iterators of the first epoch."""
MAKES_ITERATOR = "_get_iterator"
"""The method of a loader that creates an iterator and starts its workers, unless the loader still
has them."""
WORKER_INIT = "worker_init_fn"
"""The function that every worker of a loader calls when it starts."""


def before_first_iterators(loop: Any) -> str:
    """Return the last method that a loop calls before it creates its first iterators.

    After it, the loop does not replace its loaders any more.
    """
    return BEFORE_FIRST_ITERATORS if hasattr(loop, BEFORE_FIRST_ITERATORS) else "setup_data"


def loaders_of(loop: Any) -> list[Any]:
    """Return the loaders that a loop fetches from; empty if they are unknown."""
    return list(reach(loop, "_combined_loader.flattened") or ())


def iterators_of(loop: Any) -> tuple[Any, ...]:
    """Return the iterators that a loop fetches from in this epoch; empty if they are unknown."""
    return tuple(reach(loop, "_data_fetcher.iterator._iterator.iterators") or ())


def worker_ids(loop: Any) -> tuple[int, ...]:
    """Return the process ids of the workers that a loop fetches from; empty if unknown."""
    workers = (getattr(iterator, "_workers", ()) for iterator in iterators_of(loop))
    return tuple(worker.pid for of_iterator in workers for worker in of_iterator if worker.pid)


def stream_workers(loop: Any) -> int:
    """Return how many workers read an `IterableDataset` for a loop's only loader, else 0."""
    loaders = loaders_of(loop)
    if len(loaders) != 1 or not isinstance(loaders[0], dataloader.DataLoader):
        return 0
    (loader,) = loaders
    is_stream = isinstance(loader.dataset, IterableDataset)
    return int(loader.num_workers) if is_stream else 0


def has_iterator(loader: Any) -> bool:
    """Return whether a loader has an iterator with running workers (`persistent_workers`)."""
    return getattr(loader, "_iterator", None) is not None


class Timed:
    """Takes the place of an iterator or a function, and calls it inside a region."""

    def __init__(self, inner: Any, region: RegionLike) -> None:
        self.inner = inner
        self._region = region

    def __iter__(self) -> "Timed":
        return self

    def __next__(self) -> Any:
        with self._region:
            return next(self.inner)

    def __call__(self, *args: Any) -> Any:
        """Call the function."""
        with self._region:
            return self.inner(*args)


class TimedStart:
    """Takes the place of a loader's method that creates an iterator, and calls it inside a region.

    It does not keep the loader alive.
    """

    def __init__(self, loader: Any, region: RegionLike) -> None:
        self._loader = ref(loader)
        self._region = region

    def __call__(self) -> Any:
        """Create the iterator."""
        # A shallow copy of the loader has this object too. The caller's `self` is the right loader.
        caller = sys._getframe(1).f_locals.get("self")
        is_loader = getattr(caller, "__dict__", {}).get(MAKES_ITERATOR) is self
        loader = caller if is_loader else self._loader()
        with self._region:
            return getattr(type(loader), MAKES_ITERATOR)(loader)

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        return getattr, (self._loader(), MAKES_ITERATOR)


class LoaderParts:
    """Times the parts of the wait for data in the iterators of loaders.

    Nothing that is put into an iterator refers back to it. Therefore an iterator that Lightning
    drops ends its workers at once, as it does without this package.

    Args:
        sampler: The region of the sampler's work.
        workers: The region of the wait for workers.
        start: The region in which a loader creates an iterator with workers.
    """

    def __init__(self, sampler: RegionLike, workers: RegionLike, start: RegionLike) -> None:
        self._sampler = sampler
        self._workers = workers
        self._start = start
        self._loaders: WeakSet[Any] = WeakSet()
        self._timed: WeakSet[Any] = WeakSet()

    def watch(self, loop: Any) -> None:
        """Time the parts of the iterators that a loop fetches from in this epoch."""
        for iterator in iterators_of(loop):
            if type(iterator) in _ITERATORS:
                self._time_sampler(iterator)
                self._time_workers(iterator)
                self._timed.add(iterator)

    def watch_starts(self, loop: Any) -> None:
        """Time the creation of iterators with workers by the loaders of a loop from now on."""
        for loader in loaders_of(loop):
            makes = hasattr(type(loader), MAKES_ITERATOR) and MAKES_ITERATOR not in vars(loader)
            if makes and int(getattr(loader, "num_workers", 0)):
                start = TimedStart(loader, self._start)
                self._loaders.add(loader)
                vars(loader)[MAKES_ITERATOR] = start

    def use(self, timed: bool) -> None:
        """Begin or end to time the sampler. The wait for workers is always timed."""
        for iterator in self._timed:
            self._time_sampler(iterator) if timed else self._leave_sampler(iterator)

    def restore(self) -> None:
        """Restore all loaders and iterators."""
        for loader in list(self._loaders):
            if isinstance(vars(loader).get(MAKES_ITERATOR), TimedStart):
                del vars(loader)[MAKES_ITERATOR]
        self._loaders.clear()
        for iterator in list(self._timed):
            self._leave_sampler(iterator)
            poll = reach(iterator, "_data_queue._poll")
            if isinstance(poll, Timed):
                iterator._data_queue._poll = poll.inner
        self._timed.clear()

    def _time_sampler(self, iterator: Any) -> None:
        indices = getattr(iterator, "_sampler_iter", None)
        if reach(iterator, "_dataset_kind") == reach(dataloader, "_DatasetKind.Iterable"):
            return  # an iterable dataset chooses its samples itself, and the sampler only counts
        if indices is not None and not isinstance(indices, Timed):
            iterator._sampler_iter = Timed(indices, self._sampler)

    def _leave_sampler(self, iterator: Any) -> None:
        indices = getattr(iterator, "_sampler_iter", None)
        if isinstance(indices, Timed):
            iterator._sampler_iter = indices.inner

    def _time_workers(self, iterator: Any) -> None:
        # With pinned memory a thread receives the batches, and its queue has no `_poll`.
        poll = reach(iterator, "_data_queue._poll")
        if poll is not None and not isinstance(poll, Timed):
            iterator._data_queue._poll = Timed(poll, self._workers)
