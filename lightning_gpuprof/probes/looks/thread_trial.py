"""Tries what torch's threads cost where there are more of them than cores."""

import os
from collections.abc import Callable, Mapping
from statistics import median

import torch

from lightning_gpuprof.records.debugging import ThreadTrial

ROUNDS = 5
_COUNTS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
SIZE = 512


def cores_of_process() -> int:
    """Return how many cores this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1


def thread_trial(
    clock: Callable[[], int], cores: int, environ: Mapping[str, str] = os.environ
) -> ThreadTrial | None:
    """Return what a product and a sum take as it is set, and with a thread per core.

    None where there are no more threads than cores: then nothing is tried. Nor is it where the
    environment says how many: `torch.set_num_threads` ends for good that MKL uses no more of them
    than there are cores (`mkl_set_dynamic`), so only a program that called it itself is as before.
    The number of threads is put back, and no random number is drawn.
    """
    threads = torch.get_num_threads()
    if threads <= cores or any(name in environ for name in _COUNTS):
        return None
    taken: dict[int, list[int]] = {threads: [], cores: []}
    values = torch.linspace(0, 1, SIZE * SIZE, dtype=torch.float32, device="cpu").view(SIZE, SIZE)
    try:
        for number in range(2 * (ROUNDS + 1)):
            count = threads if number % 2 == 0 else cores
            torch.set_num_threads(count)
            (values @ values).add_(values)  # threads are started here
            begin_ns = clock()
            (values @ values).add_(values).relu_()
            taken[count].append(clock() - begin_ns)
    finally:
        torch.set_num_threads(threads)
    # A first round starts threads and fills caches.
    return ThreadTrial(
        threads=threads,
        cores=cores,
        as_set_ns=round(median(taken[threads][1:])),
        per_core_ns=round(median(taken[cores][1:])),
    )
