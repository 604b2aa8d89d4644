"""A window of scalars averaged over all ranks, with one collective."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from lightning_gpuprof.recorders.scalars.transfer import Transfer, in_pinned, to_host

Values = Sequence[Tensor | float | None]
Sum = Callable[[Tensor], Tensor]
"""Returns the sum of a tensor over all ranks."""


class RankMeans:
    """Means over the ranks that gave a value, on their way to the host.

    Ranks may give values in different steps, types and on different devices: what is summed has
    one shape on all of them, room for each name's value in each step and for how many there are.

    Args:
        columns: By name, each step's value.
        device: Where the ranks can meet.
        add: Sums over them.
        transfer: Queues a copy to the host.
        room: Numbers to allocate pinned memory for, where there are fewer.

    >>> columns = {"loss": [torch.tensor(0.5), None], "kl": [None, 2.0]}
    >>> RankMeans(columns, torch.device("cpu"), lambda sums: sums * 3).result()
    {'loss': [0.5, None], 'kl': [None, 2.0]}
    """

    def __init__(
        self,
        columns: Mapping[str, Values],
        device: torch.device,
        add: Sum,
        transfer: Transfer = to_host,
        *,
        room: int = 0,
    ) -> None:
        self._names = list(columns)
        numbers = [value for column in columns.values() for value in column]
        exact = torch.float32 if device.type == "mps" else torch.float64
        given = [0.0 if value is None else 1.0 for value in numbers]
        own = [0.0 if value is None or isinstance(value, Tensor) else value for value in numbers]
        sums = torch.tensor([own, given], dtype=exact)
        if device.type == "cuda":  # or the copy would wait
            sums = in_pinned(sums, room=room)
        sums = sums.to(device, non_blocking=True)
        for place, value in enumerate(numbers):
            if isinstance(value, Tensor):
                sums[0, place].copy_(value, non_blocking=True)
        self._pending = transfer(add(sums))

    def ready(self) -> bool:
        """Tell whether the means have arrived; never waits."""
        return self._pending.ready()

    def result(self) -> dict[str, list[float | None]]:
        """Return the means, None where no rank gave a value; waits for the device."""
        totals, counts = self._pending.result().double().tolist()
        means: list[Any] = [
            total / count if count else None for total, count in zip(totals, counts, strict=True)
        ]
        steps = len(means) // len(self._names)
        return {
            name: means[number * steps : (number + 1) * steps]
            for number, name in enumerate(self._names)
        }
