"""Samples the stacks of a DataLoader's workers, from the training process."""

import os
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from msgspec import MsgspecError, json
from msgspec.structs import astuple, replace
from torch.utils.data import DataLoader

from lightning_gpuprof.adapters.lightning import data_loop
from lightning_gpuprof.adapters.loaders import (
    WORKER_INIT,
    before_first_iterators,
    has_iterator,
    loaders_of,
)
from lightning_gpuprof.recorders.sampling.stack_lines import MAX_LINES
from lightning_gpuprof.recorders.sampling.worker_sampling import (
    AGAIN_NAME,
    WORKERS,
    SampleAgain,
    WorkerStart,
)
from lightning_gpuprof.records.files import written_whole
from lightning_gpuprof.records.lines import CpuTime, LineCount, Reads, WorkerLines
from lightning_gpuprof.runtime.context import RunContext
from lightning_gpuprof.runtime.guard import attempt, guarded

_Reading = TypeVar("_Reading", Reads, CpuTime)


class WorkerSampler:
    """Samples the Python stacks of the training loader's first worker processes for a while.

    While a loader makes an iterator, its `worker_init_fn` is replaced by a `WorkerStart`. That
    calls the user's function and then starts a thread in the worker, which samples the worker's
    main thread until it has `max_samples` samples, and writes them to a temporary folder. The
    folder is removed when training ends. Loaders of validation, and loaders of other classes than
    torch's, are left alone.

    Args:
        interval_s: The mean interval of the first samples.
        max_samples: Samples per worker.
        stays: Whether the threads stay in the workers, so that `sample_again` can be called.
    """

    def __init__(
        self, *, interval_s: float = 0.02, max_samples: int = 200, stays: bool = False
    ) -> None:
        self.interval_s = interval_s
        self.max_samples = max_samples
        self.stays = stays
        self._context: RunContext | None = None
        self._clear()

    def _clear(self) -> None:
        self._replaced: list[tuple[Any, WorkerStart]] = []
        """Loaders with the function that takes the place of their own."""
        self._folder: str | None = None
        self._start_count = 0
        self._samples: WorkerLines | None = None
        self._recorded_count = 0

    @guarded
    def setup(self, trainer: Any, context: RunContext) -> None:
        """Prepare to sample the workers that the training loaders start first."""
        self._context = context
        self.release()
        self._clear()
        loop = data_loop(trainer)
        sample = partial(self.sample_next_workers, loop)
        context.wrappers.call_after(loop, before_first_iterators(loop), sample)

    @property
    def has_replaced(self) -> bool:
        """Whether the `worker_init_fn` of a loader is replaced now."""
        return bool(self._replaced)

    @guarded
    def sample_next_workers(self, loop: Any) -> None:
        """Let the workers be sampled that the loaders of a loop start next."""
        self.restore_loaders()
        self._read()
        whole = self._samples.whole if self._samples else 0
        left = max(0, self.max_samples - whole // WORKERS)
        if not left and not self.stays:
            return
        for number, loader in enumerate(loaders_of(loop)):
            if _starts_workers(loader) and self._make_folder() is not None:
                self._start_count += 1
                start = WorkerStart(
                    inner=getattr(loader, WORKER_INIT),
                    folder=self._folder or "",
                    name=f"{number}-{self._start_count}",
                    interval_s=self.interval_s,
                    max_samples=left,
                    asked_ns=time.perf_counter_ns(),
                    stays=self.stays,
                )
                vars(loader)[WORKER_INIT] = start
                self._replaced.append((loader, start))

    def restore_loaders(self) -> None:
        """Restore the `worker_init_fn` of all loaders, once their iterators have been made."""
        while self._replaced:
            loader, start = self._replaced.pop()
            if vars(loader).get(WORKER_INIT) is start:
                vars(loader)[WORKER_INIT] = start.inner

    def _make_folder(self) -> str | None:
        if self._folder is None:
            self._folder = attempt(lambda: tempfile.mkdtemp(prefix="gpuprof-workers-"), None)
        return self._folder

    def _read(self) -> None:
        if self._folder is not None and os.path.isdir(self._folder):
            workers = [worker for worker in read_samples(self._folder) if worker.whole]
            self._samples = _combined(workers) if workers else None

    def sample_again(self, capture: int, seconds: float) -> None:
        """Ask the workers that run now to sample again, for some seconds."""
        if self._folder is not None:
            path = os.path.join(self._folder, AGAIN_NAME)
            with suppress(OSError), written_whole(path) as part, open(part, "wb") as file:
                file.write(json.encode(SampleAgain(capture, seconds)))

    def read_again(self, capture: int) -> WorkerLines | None:
        """Return the samples that workers have taken for a capture; None if there are none."""
        if self._folder is None or not os.path.isdir(self._folder):
            return None
        suffix = SampleAgain(capture, 0).suffix
        workers = [worker for worker in read_samples(self._folder, suffix) if worker.whole]
        return _combined(workers) if workers else None

    @guarded
    def write(self) -> None:
        """Record all samples so far, if there are new ones."""
        self._read()
        samples = self._samples
        if self._context is None or samples is None or samples.whole == self._recorded_count:
            return
        self._recorded_count = samples.whole
        self._context.write(samples)

    def release(self) -> None:
        """Restore the loaders and remove the temporary folder."""
        attempt(self._read, None)
        self.restore_loaders()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_replaced": [], "_folder": None}


def _starts_workers(loader: object) -> bool:
    """Return whether an iterator that a loader makes now starts worker processes."""
    return (
        isinstance(loader, DataLoader)
        and loader.num_workers > 0
        and not has_iterator(loader)
        and WORKER_INIT in vars(loader)
        and not isinstance(getattr(loader, WORKER_INIT), WorkerStart)
    )


def _combined(workers: Sequence[WorkerLines]) -> WorkerLines:
    """Return the samples of all workers in a single record."""
    counts, doubts = Counter[LineCount](), Counter[LineCount]()
    for worker in workers:
        for line in worker.lines:
            key = replace(line, count=0, doubt=0)
            counts[key] += line.count
            doubts[key] += line.doubt
    starts = [worker.start_ns for worker in workers if worker.start_ns is not None]
    inits = [worker.init_ns for worker in workers if worker.init_ns is not None]
    reports_waits = workers[0].blocked is not None
    return WorkerLines(
        processes=len(workers),
        work=sum(worker.work for worker in workers),
        waiting=sum(worker.waiting for worker in workers),
        handing=sum(worker.handing for worker in workers),
        lines=tuple(
            replace(line, count=count, doubt=doubts[line])
            for line, count in counts.most_common(MAX_LINES)
        ),
        start_ns=max(starts, default=None),
        init_ns=max(inits, default=None),
        blocked=sum(worker.blocked or 0 for worker in workers) if reports_waits else None,
        filesystem=next((worker.filesystem for worker in workers if worker.filesystem), None),
        read=_total([worker.read for worker in workers if worker.read is not None]),
        cpu=_total([worker.cpu for worker in workers if worker.cpu is not None]),
    )


def _total(readings: Sequence[_Reading]) -> _Reading | None:
    """Return the sum of what several workers have read or computed; None without any."""
    if not readings:
        return None
    return type(readings[0])(*map(sum, zip(*map(astuple, readings), strict=True)))


def read_samples(folder: str, suffix: str = "") -> Iterator[WorkerLines]:
    """Yield the samples that the workers have written to files with a suffix in a folder."""
    for entry in os.scandir(folder):
        if entry.name.endswith(".json" + suffix):
            with suppress(OSError, MsgspecError), open(entry.path, "rb") as file:
                yield json.decode(file.read(), type=WorkerLines)
