"""Notes at which lines of the program worker processes spend their time."""

import os
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from msgspec import MsgspecError, json
from msgspec.structs import replace
from torch.utils.data import DataLoader

from lightning_gpuprof.adapters.lightning import data_loop
from lightning_gpuprof.adapters.loaders import (
    WORKER_INIT,
    before_first_iterators,
    has_iterator,
    loaders_of,
)
from lightning_gpuprof.recorders.sampling.stack_lines import MOST_LINES
from lightning_gpuprof.recorders.sampling.worker_sampling import WORKERS, WorkerStart
from lightning_gpuprof.records.lines import LineCount, Reads, WorkerLines
from lightning_gpuprof.runtime.context import RunContext
from lightning_gpuprof.runtime.guard import attempt, guarded


class WorkerSampler:
    """Samples the Python stacks of the training loader's first worker processes, for a while.

    While iterators of a loader are made, its `worker_init_fn` is another one: it calls the user's,
    then starts a thread in the worker that samples the worker's main thread until it has `most`
    samples. It writes them to a temporary folder, which is gone when training ends. Loaders of
    validation, and those that are not torch's own, are left alone.
    """

    def __init__(self, *, interval_s: float = 0.02, most: int = 200) -> None:
        self.interval_s, self.most = interval_s, most
        self._context: RunContext | None = None
        self._clear()

    def _clear(self) -> None:
        self._placed: list[tuple[Any, WorkerStart]] = []
        self._folder: str | None = None
        self._starts = self._noted = 0
        self._found: WorkerLines | None = None

    @guarded
    def setup(self, trainer: Any, context: RunContext) -> None:
        """Be there when the iterators of the loaders are made, in a fit of those that train."""
        self._context = context
        self.release()
        self._clear()
        loop = data_loop(trainer)
        context.wrappers.call_after(loop, before_first_iterators(loop), partial(self.place, loop))

    @property
    def placed(self) -> bool:
        """Whether a loader has another `worker_init_fn` now."""
        return bool(self._placed)

    @guarded
    def place(self, loop: Any) -> None:
        """Let workers that are started next be sampled."""
        self.put_back()
        self._read()
        left = self.most - (self._found.whole // WORKERS if self._found else 0)
        for number, loader in enumerate(loaders_of(loop) if left > 0 else []):
            if _starts_workers(loader) and self._made_folder() is not None:
                self._starts += 1
                start = WorkerStart(
                    inner=getattr(loader, WORKER_INIT),
                    folder=self._folder or "",
                    name=f"{number}-{self._starts}",
                    interval_s=self.interval_s,
                    most=left,
                    asked_ns=time.perf_counter_ns(),
                )
                vars(loader)[WORKER_INIT] = start
                self._placed.append((loader, start))

    def put_back(self) -> None:
        """Give each loader its own `worker_init_fn` back: the iterators are made."""
        while self._placed:
            loader, start = self._placed.pop()
            if vars(loader).get(WORKER_INIT) is start:
                vars(loader)[WORKER_INIT] = start.inner

    def _made_folder(self) -> str | None:
        if self._folder is None:
            self._folder = attempt(lambda: tempfile.mkdtemp(prefix="gpuprof-workers-"), None)
        return self._folder

    def _read(self) -> None:
        if self._folder is not None and os.path.isdir(self._folder):
            found = [one for one in read_samples(self._folder) if one.whole]
            self._found = _together(found) if found else None

    @guarded
    def write(self) -> None:
        """Record all samples so far, if there are more than the last time."""
        self._read()
        found = self._found
        if self._context is None or found is None or found.whole == self._noted:
            return
        self._noted = found.whole
        self._context.write(found)

    def release(self) -> None:
        """Put everything back and remove the temporary folder."""
        attempt(self._read, None)
        self.put_back()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_placed": [], "_folder": None}


def _starts_workers(loader: object) -> bool:
    """Tell whether an iterator of a loader starts worker processes now."""
    return (
        isinstance(loader, DataLoader)
        and loader.num_workers > 0
        and not has_iterator(loader)
        and WORKER_INIT in vars(loader)
        and not isinstance(getattr(loader, WORKER_INIT), WorkerStart)
    )


def _together(found: Sequence[WorkerLines]) -> WorkerLines:
    """Return the samples of all workers as one."""
    lines, doubts = Counter[LineCount](), Counter[LineCount]()
    for line in (line for one in found for line in one.lines):
        key = replace(line, count=0, doubt=0)
        lines[key] += line.count
        doubts[key] += line.doubt
    return WorkerLines(
        processes=len(found),
        work=sum(one.work for one in found),
        waiting=sum(one.waiting for one in found),
        handing=sum(one.handing for one in found),
        lines=tuple(
            replace(line, count=count, doubt=doubts[line])
            for line, count in lines.most_common(MOST_LINES)
        ),
        start_ns=max((one.start_ns for one in found if one.start_ns is not None), default=None),
        init_ns=max((one.init_ns for one in found if one.init_ns is not None), default=None),
        blocked=None if found[0].blocked is None else sum(one.blocked or 0 for one in found),
        filesystem=next((one.filesystem for one in found if one.filesystem), None),
        read=_sum([one.read for one in found if one.read is not None]),
    )


def _sum(read: Sequence[Reads]) -> Reads | None:
    """Return all that was read, in all the time that it took."""
    fields = Reads.__struct_fields__
    return Reads(*(sum(getattr(one, name) for one in read) for name in fields)) if read else None


def read_samples(folder: str) -> Iterator[WorkerLines]:
    """Yield the samples of each worker."""
    for entry in os.scandir(folder):
        if entry.name.endswith(".json"):
            with suppress(OSError, MsgspecError), open(entry.path, "rb") as file:
                yield json.decode(file.read(), type=WorkerLines)
