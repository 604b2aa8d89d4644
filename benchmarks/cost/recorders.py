"""What recorders of the first batches take on the training thread, by its CPU time.

    python benchmarks/cost/recorders.py

Prints the median of many calls, in microseconds, for batches of several sizes. The docstrings of
the recorders give these figures.
"""

import statistics
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from _harness import one_thread, table

one_thread()

import torch  # noqa: E402
from torch import nn  # noqa: E402

from lightning_gpuprof.recorders.batch_sizes import count_padding, sequences_in  # noqa: E402
from lightning_gpuprof.tensors import checksum, tensors_with_paths  # noqa: E402

CALLS = 50


def median_us(call: Callable[[], Any]) -> float:
    """Return the median CPU time of a call on this thread, after a few to warm up."""
    times = []
    for number in range(CALLS + 5):
        begin = time.thread_time_ns()
        call()
        if number >= 5:
            times.append(time.thread_time_ns() - begin)
    return statistics.median(times) / 1000


def sizes_of(batch: Any) -> int:
    return sum(tensor.numel() for _, tensor in tensors_with_paths(batch))


def search(tensor: torch.Tensor) -> None:
    for _, values in sequences_in(tensor):
        for rows in (values, values.flip(1)):
            count_padding(rows)


def figures() -> Iterator[tuple[str, float]]:
    pair = [torch.zeros(8, 4), torch.zeros(8)]
    yield "sizes of a batch of two tensors", median_us(partial(sizes_of, pair))
    for shape in ((32, 128), (64, 1024), (256, 16384)):
        tokens = torch.randint(0, 1000, shape)
        yield f"padding of {shape} tokens", median_us(partial(search, tokens))
    for shape in ((32, 128, 64), (64, 512, 128)):
        yield f"padding of {shape} floats", median_us(partial(search, torch.randn(shape)))
    for rows in (4096, 262_144):
        gradient = nn.Embedding(rows, 64).weight.detach()
        mebibytes = gradient.numel() * 4 / 2**20
        used = partial(lambda values: values.any(1).sum(), gradient)
        yield f"rows used of a table of {mebibytes:.0f} MiB", median_us(used)
    for mebibytes in (0.01, 1, 16):
        batch = torch.randn(int(mebibytes * 2**18))
        yield f"checksum of a batch of {mebibytes:g} MiB", median_us(partial(checksum, batch))


def main() -> None:
    rows = ((name, f"{us:,.0f}") for name, us in figures())
    print("\n".join(table(("what", "us"), rows)))


if __name__ == "__main__":
    main()
