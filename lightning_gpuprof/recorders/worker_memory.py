"""Records the memory of the loader's worker processes, and the Python objects of its dataset."""

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from typing_extensions import override

from lightning_gpuprof.adapters.lightning import data_loop
from lightning_gpuprof.adapters.loaders import loaders_of, worker_ids
from lightning_gpuprof.recorders.device.device_stats import StatsSampler
from lightning_gpuprof.recorders.recorder import Recorder
from lightning_gpuprof.records.facts import DatasetObjects, WorkerMemory
from lightning_gpuprof.runtime.guard import attempt, guarded
from lightning_gpuprof.runtime.hooks import HookDispatcher, PeriodicCalls
from lightning_gpuprof.runtime.host_memory import ProcessPages, available_bytes, process_pages

WINDOW = 50
"""The training thread collects the readings once in so many batches."""
READ_WORKERS = 1
"""The workers of a loader do the same work, so the first one stands for all."""
FIRST_INTERVAL_S, LONGEST_INTERVAL_S, INTERVALS = 0.1, 1.0, 20
"""Readings are a twentieth of the time so far apart, within these bounds."""
MOST_COST_FRAC = 0.02
"""The share of a core that the readings may take. A worker with a large memory is read less
often."""
LONG_COLLECTION = 1000
"""Shorter collections of a dataset, such as lists of files or transforms, take no memory to speak
of."""
_WRAPPERS = 5
NOT_MEASURED_NOTE = "worker-memory-not-measured"


class WorkerMemoryReader:
    """Reads the memory of some worker processes. Called in a thread of its own.

    Args:
        step: Returns the number of the running step.
        pages: Returns the memory of a process; tests pass a fake.
        available: Returns how much memory is left.
        clock: Returns nanoseconds of time.
        cpu_clock: Returns nanoseconds of the thread's time on a core.
    """

    def __init__(
        self,
        step: Callable[[], int],
        *,
        pages: Callable[[int], ProcessPages | None] = process_pages,
        available: Callable[[], int | None] = available_bytes,
        clock: Callable[[], int] = time.perf_counter_ns,
        cpu_clock: Callable[[], int] = time.thread_time_ns,
    ) -> None:
        self.workers: tuple[int, ...] = ()
        """The process ids of the running workers. The training thread sets them."""
        self._step, self._pages, self._available = step, pages, available
        self._clock, self._cpu_clock = clock, cpu_clock
        self._read_before: tuple[int, ...] = ()
        self._generation = 0
        self._begun_ns = clock()
        self._cost_ns = 0

    def interval_s(self) -> float:
        """Return how long to wait before the next reading."""
        so_far_s = (self._clock() - self._begun_ns) / 1e9
        interval_s = min(max(so_far_s / INTERVALS, FIRST_INTERVAL_S), LONGEST_INTERVAL_S)
        return max(interval_s, self._cost_ns / 1e9 / MOST_COST_FRAC)

    def read(self) -> WorkerMemory | None:
        """Return the memory of the workers; None if some of them have ended."""
        begun_ns, workers, step = self._cpu_clock(), self.workers, self._step()
        pages = [page for pid in workers[:READ_WORKERS] if (page := self._pages(pid)) is not None]
        self._cost_ns = self._cpu_clock() - begun_ns
        if not workers or len(pages) < min(READ_WORKERS, len(workers)):
            return None
        if workers != self._read_before:
            self._generation += 1
            self._read_before = workers
        return WorkerMemory(
            step=step,
            generation=self._generation,
            workers=len(workers),
            private_bytes=len(workers) * sum(p.private_bytes for p in pages) // len(pages),
            anonymous_bytes=len(workers) * sum(p.anonymous_bytes for p in pages) // len(pages),
            available_bytes=self._available(),
        )

    def close(self) -> None:
        """There is nothing to release."""


class WorkerMemories(Recorder):
    """Records the memory of the training loader's worker processes while batches are made.

    A forked worker shares the memory of the training process until it writes to it. Python writes
    to every object that it uses, since it counts references, so a dataset of Python objects is
    copied into every worker bit by bit. The dataset's longest collection of objects is recorded
    too.

    Costs: in the training thread about 1 us in 50 batches, and 30 us per reading. A reading takes
        the kernel some 20 ms per GiB of a worker, in a thread.
    Touches: a thread that reads the kernel's figures of the first worker in /proc, ten times a
        second at first and once a second later, until training ends.
    When: training and evaluations whose loader has workers.

    Args:
        reader: Creates the reader; tests pass one with figures of their own.
        sampler: Creates the sampler; tests pass one without a thread.
    """

    def __init__(
        self,
        *,
        reader: Callable[[Callable[[], int]], WorkerMemoryReader] = WorkerMemoryReader,
        sampler: Callable[..., StatsSampler[WorkerMemory | None]] = StatsSampler,
    ) -> None:
        self._make_reader, self._make_sampler = reader, sampler
        self._worker_ids: Callable[[], tuple[int, ...]] | None = None
        self._reader: WorkerMemoryReader | None = None
        self._sampler: StatsSampler[WorkerMemory | None] | None = None
        self._calls: PeriodicCalls | None = None

    @override
    def on_train_start(self, trainer: Any, hooks: HookDispatcher) -> None:
        self.release()
        loop = data_loop(trainer)
        if any(int(getattr(loader, "num_workers", 0)) for loader in loaders_of(loop)):
            self._worker_ids, self._calls = partial(worker_ids, loop), hooks.periodic

    @override
    def on_first_batch_end(self, trainer: Any, outputs: Any, batch: Any) -> None:
        context, ids, calls = self._context, self._worker_ids, self._calls
        if context is None or ids is None or calls is None:
            return
        for loader in loaders_of(data_loop(trainer)):
            objects = attempt(partial(dataset_objects, getattr(loader, "dataset", None)), None)
            if objects is not None:
                context.write(objects)
        reader = self._reader = self._make_reader(lambda: context.step)
        reader.workers = ids()
        if not reader.workers:
            context.note(NOT_MEASURED_NOTE, message="the loader does not show its processes")
            return
        self._sampler = self._make_sampler(reader, interval_s=reader.interval_s)
        self._sampler.start()
        calls.add(self._collect, WINDOW)

    @override
    def on_train_end(self, trainer: Any) -> None:
        self._write()
        self.release()

    @guarded
    def _collect(self) -> None:
        """Write the new readings, and find out which processes the next ones are about."""
        if self._write() and self._reader is not None and self._worker_ids is not None:
            self._reader.workers = self._worker_ids()

    def _write(self) -> bool:
        """Write the readings since the last call, and return whether there was one."""
        context, sampler = self._context, self._sampler
        if context is None or sampler is None:
            return False
        readings = sampler.take()
        for reading in readings:
            if reading is not None:
                context.write(reading)
        if sampler.error is not None:
            message = f"the system does not show the memory of workers: {sampler.error}"
            context.note(NOT_MEASURED_NOTE, message=message)
            sampler.error = None
        return bool(readings)

    @override
    def release(self) -> None:
        calls, self._calls = self._calls, None
        if calls is not None:
            calls.drop(self._collect)
        sampler, self._sampler = self._sampler, None
        if sampler is not None:
            sampler.close()
        self._worker_ids = self._reader = None


def dataset_objects(dataset: Any) -> DatasetObjects | None:
    """Return the longest collection of Python objects in a dataset's attributes; None if short.

    Of a dataset that wraps others, such as a `Subset`, those are searched too. Tensors and arrays
    in a collection do not count, since using them does not write to their data.

    >>> from types import SimpleNamespace
    >>> held = dataset_objects(SimpleNamespace(files=["a"] * 9, samples=[{"text": ""}] * 5_000))
    >>> held.attribute, held.items, held.item
    ('samples', 5000, 'dict')
    """
    return max(_collections(dataset, _WRAPPERS), key=lambda held: held.items, default=None)


def _collections(dataset: Any, depth: int) -> Iterator[DatasetObjects]:
    for name, value in getattr(dataset, "__dict__", {}).items():
        if name in ("dataset", "datasets") and depth:
            for inner in value if isinstance(value, list | tuple) else [value]:
                yield from _collections(inner, depth - 1)
        elif isinstance(value, list | tuple | dict | set) and len(value) >= LONG_COLLECTION:
            item = next(iter(value.values() if isinstance(value, dict) else value))
            if not hasattr(item, "__array__"):
                yield DatasetObjects(
                    owner=type(dataset).__name__,
                    attribute=name,
                    collection=type(value).__name__,
                    items=len(value),
                    item=type(item).__name__,
                )
