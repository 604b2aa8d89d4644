"""Samples of one worker process, in a file that it leaves for the training process to read.

The file lies in a temporary folder for the length of a fit; the run keeps a `WorkerLines` record.
"""

import os
from collections.abc import Iterator

from msgspec import MsgspecError, Struct, json

from lightning_gpuprof.records.files import written_whole

_SUFFIX = ".json"


class PlaceCount(Struct, frozen=True, array_like=True):
    """Samples at one place; see `LineCount`."""

    file: str
    line: int
    function: str
    callee: str | None
    kind: str | None
    count: int


class WorkerCounts(Struct, frozen=True):
    """Samples of one worker process's main thread.

    Args:
        worker: Its number within its loader, from 0.
        waiting: Samples in which it waited for work.
        handing: Samples in which it neither worked nor waited: it handed a batch over.
        seen: Samples in which it made a batch, by place; outside the user's code, `file` is empty.
        start_ns: From when its loader was asked for an iterator to the worker's first own code.
        init_ns: What the user's `worker_init_fn` took; None where there is none.
    """

    worker: int
    waiting: int
    handing: int
    seen: tuple[PlaceCount, ...]
    start_ns: int | None = None
    init_ns: int | None = None

    @property
    def work(self) -> int:
        """Samples in which it made a batch."""
        return sum(one.count for one in self.seen)

    @property
    def whole(self) -> int:
        """All samples."""
        return self.work + self.waiting + self.handing


def write_counts(folder: str, name: str, counts: WorkerCounts) -> None:
    """Write a worker's counts, in the place of those that it wrote before.

    Raises:
        OSError: The folder is not there any more: nobody reads them.
    """
    with written_whole(os.path.join(folder, name + _SUFFIX)) as path, open(path, "wb") as file:
        file.write(json.encode(counts))


def read_counts(folder: str) -> Iterator[WorkerCounts]:
    """Yield what the workers have written so far; what cannot be read is left out."""
    for entry in os.scandir(folder):
        if not entry.name.endswith(_SUFFIX):
            continue
        try:
            with open(entry.path, "rb") as file:
                yield json.decode(file.read(), type=WorkerCounts)
        except (OSError, MsgspecError):
            continue
