"""Stands in for a loader's `worker_init_fn` while its worker processes are started."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from lightning_gpuprof.recorders.sampling.worker_sampling import WorkerSampling
from lightning_gpuprof.session.guard import attempt

WORKERS = 2
"""Only the first workers of a loader are sampled: all of them do the same."""


@dataclass
class WorkerStart:
    """Calls the user's `worker_init_fn`, if any, and then begins to sample the worker.

    It is sent to each worker, so it holds little, and nothing of the training process.

    Args:
        inner: The user's.
        folder: Where workers write what was seen.
        name: Begins the names of their files.
        interval_s: Mean distance of the first samples.
        most: Samples of one worker.
        asked_ns: When the loader was asked for an iterator, by `time.perf_counter_ns`, which all
            processes of a machine share.
    """

    inner: Callable[[int], Any] | None
    folder: str
    name: str
    interval_s: float
    most: int
    asked_ns: int

    def __call__(self, worker_id: int) -> None:
        """Do the user's part, whatever it raises; ours cannot fail."""
        begun_ns = time.perf_counter_ns()
        if self.inner is not None:
            self.inner(worker_id)
        if worker_id < WORKERS:
            attempt(partial(self._look, worker_id, begun_ns), None)

    def _look(self, worker_id: int, begun_ns: int) -> None:
        init_ns = None if self.inner is None else time.perf_counter_ns() - begun_ns
        # The first worker is started first: others wait for those before them.
        start_ns = max(0, begun_ns - self.asked_ns) if worker_id == 0 else None
        WorkerSampling(
            self.folder,
            f"{self.name}-{worker_id}",
            worker=worker_id,
            watched=threading.get_ident(),
            start_ns=start_ns,
            init_ns=init_ns,
        ).begin(interval_s=self.interval_s, most=self.most)
