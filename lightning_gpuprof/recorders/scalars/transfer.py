"""Copies numbers from a device to the host without making the host wait."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

_HAS_FLOAT64 = ("cpu", "cuda", "meta")


class HostCopy:
    """A copy of a tensor's current values on the host, asynchronous from CUDA and HIP devices.

    Only a copy to pinned memory can be asynchronous. A copy to pageable memory makes the host wait,
    whatever `non_blocking` says. Torch calls HIP devices "cuda" too.

    >>> HostCopy(torch.tensor([1.0, 2.0])).result().tolist()
    [1.0, 2.0]
    """

    def __init__(self, values: Tensor, *, room: int = 0) -> None:
        self._event: Any = None
        if values.device.type == "cuda":
            self._host = in_pinned(values, room=room)
            self._event = torch.cuda.Event()  # type: ignore[no-untyped-call]
            self._event.record(torch.cuda.current_stream(values.device))
        else:
            self._host = values.to("cpu", copy=True)

    def ready(self) -> bool:
        """Return whether the device has made the copy. Never waits."""
        return self._event is None or bool(self._event.query())

    def result(self) -> Tensor:
        """Return the values. Waits until the device has made the copy."""
        if self._event is not None:
            self._event.synchronize()
        return self._host


Transfer = Callable[[Tensor], HostCopy]
"""Queues a copy of a tensor's current values to the host."""


def pinned(count: int, dtype: torch.dtype) -> Tensor:
    """Allocate pinned memory for `count` numbers."""
    return torch.empty(count, dtype=dtype, pin_memory=True)


def in_pinned(values: Tensor, *, room: int = 0) -> Tensor:
    """Copy values into pinned memory for at least `room` numbers, asynchronously from a device."""
    count = values.numel()
    host = pinned(max(room, count), values.dtype)[:count].view(values.shape)
    return host.copy_(values, non_blocking=True)


def with_room(count: int, device: torch.device) -> Transfer:
    """Return a transfer for up to `count` float64 numbers whose pinned memory is allocated now.

    The allocation of pinned memory may make the host wait for the device, so that it must not
    happen in a step. Torch caches freed pinned memory and uses it again for the same size.
    Therefore three buffers are allocated and freed here: a buffer to fill, a buffer to read and,
    with several ranks, a buffer to send. All copies then have that size.
    """
    if device.type == "cuda":
        buffers = [pinned(count, torch.float64) for _ in range(3)]
        del buffers
    return partial(HostCopy, room=count)


def exact_dtype(value: Tensor) -> torch.dtype:
    """Return a type that holds the tensor's values exactly on its device."""
    if value.device.type in _HAS_FLOAT64:
        return torch.float64
    return torch.float32 if value.is_floating_point() else torch.int64


Value = Tensor | float | None


class Numbers:
    """Values that are being copied to the host, with a copy per device and data type.

    >>> Numbers([torch.tensor(0.5), None, 2.0]).result()
    [0.5, None, 2.0]
    """

    def __init__(self, values: Sequence[Value], transfer: Transfer = HostCopy) -> None:
        self._values: list[Any] = list(values)
        indices_by_type: dict[Any, list[int]] = defaultdict(list)
        for index, value in enumerate(self._values):
            if isinstance(value, Tensor):
                indices_by_type[value.device, value.dtype].append(index)
        # Values of several types share a copy if the same type holds all of them exactly.
        groups: dict[Any, list[tuple[list[int], Tensor]]] = defaultdict(list)
        for indices in indices_by_type.values():
            stacked = torch.stack([self._values[index] for index in indices])
            exact = stacked.to(exact_dtype(stacked))
            groups[exact.device, exact.dtype].append((indices, exact))
        self._copies = [
            ([index for indices, _ in group for index in indices], transfer(_joined(group)))
            for group in groups.values()
        ]

    def ready(self) -> bool:
        """Return whether all copies are complete. Never waits."""
        return all(copy.ready() for _, copy in self._copies)

    def result(self) -> list[Any]:
        """Return the numbers in order. Waits for copies that are not complete."""
        for indices, copy in self._copies:
            numbers = copy.result().double().tolist()
            for index, number in zip(indices, numbers, strict=True):
                self._values[index] = number
        return self._values


def _joined(group: list[tuple[list[int], Tensor]]) -> Tensor:
    return group[0][1] if len(group) == 1 else torch.cat([exact for _, exact in group])


class RankMeans:
    """Means over the ranks that have a value, which are being copied to the host.

    This takes a single collective. Ranks may have values in different steps, of different types and
    on different devices. Therefore all ranks sum a tensor of the same shape, which has a place for
    every value and a place that counts the ranks that have this value.

    Args:
        values: The values of this rank; None where it has none.
        device: The device of the collective.
        add: Sums a tensor over all ranks.
        transfer: Copies the sums to the host.
        room: The size of the pinned memory, as `with_room` has allocated it.

    >>> values = [torch.tensor(0.5), None, None, 2.0]
    >>> RankMeans(values, torch.device("cpu"), lambda sums: sums * 3).result()
    [0.5, None, None, 2.0]
    """

    def __init__(
        self,
        values: Sequence[Value],
        device: torch.device,
        add: Callable[[Tensor], Tensor],
        transfer: Transfer = HostCopy,
        *,
        room: int = 0,
    ) -> None:
        exact = torch.float32 if device.type == "mps" else torch.float64
        counts = [0.0 if value is None else 1.0 for value in values]
        numbers = [0.0 if value is None or isinstance(value, Tensor) else value for value in values]
        sums = torch.tensor([numbers, counts], dtype=exact)
        if device.type == "cuda":  # a copy from pageable memory would wait
            sums = in_pinned(sums, room=room)
        sums = sums.to(device, non_blocking=True)
        for index, value in enumerate(values):
            if isinstance(value, Tensor):
                sums[0, index].copy_(value, non_blocking=True)
        self._pending = transfer(add(sums))

    def ready(self) -> bool:
        """Return whether the copy is complete. Never waits."""
        return self._pending.ready()

    def result(self) -> list[Any]:
        """Return the means, or None for values that no rank has. Waits for the device."""
        sums, counts = self._pending.result().double().tolist()
        return [total / count if count else None for total, count in zip(sums, counts, strict=True)]
