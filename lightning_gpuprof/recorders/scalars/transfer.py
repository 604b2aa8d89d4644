"""Copies numbers to the host without making the host wait for the device."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

_HAS_FLOAT64 = ("cpu", "cuda", "meta")


class HostCopy:
    """A copy of a tensor's present values on the host, asynchronous where the device allows.

    Only pinned memory lets a copy be asynchronous: into pageable memory CUDA and HIP make the
    host wait, whatever `non_blocking` says. HIP devices are named cuda in torch too.

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
        """Tell whether the device has passed the copy; never waits."""
        return self._event is None or bool(self._event.query())

    def result(self) -> Tensor:
        """Return the values; waits where the device has not passed the copy."""
        if self._event is not None:
            self._event.synchronize()
        return self._host


Transfer = Callable[[Tensor], HostCopy]
"""Queues a copy of a tensor's present values to the host."""


def pinned(count: int, dtype: torch.dtype) -> Tensor:
    """Allocate pinned memory for so many numbers."""
    return torch.empty(count, dtype=dtype, pin_memory=True)


def in_pinned(values: Tensor, *, room: int = 0) -> Tensor:
    """Copy values into pinned memory for at least `room` numbers, asynchronously from a device."""
    count = values.numel()
    host = pinned(max(room, count), values.dtype)[:count].view(values.shape)
    return host.copy_(values, non_blocking=True)


def with_room(count: int, device: torch.device) -> Transfer:
    """Return a transfer of float64 whose memory for so many numbers is allocated already.

    To allocate pinned memory may make the host wait for the device, so it has no place in a step.
    torch keeps freed memory for the next piece of that size: hence all copies have one size, and
    there are three pieces: to fill, to read and, with several ranks, to send.
    """
    if device.type == "cuda":
        pieces = [pinned(count, torch.float64) for _ in range(3)]
        del pieces
    return partial(HostCopy, room=count)


def exact_dtype(value: Tensor) -> torch.dtype:
    """Return a type that holds the tensor's values exactly on its device."""
    if value.device.type in _HAS_FLOAT64:
        return torch.float64
    return torch.float32 if value.is_floating_point() else torch.int64


Value = Tensor | float | None


class Numbers:
    """Values on their way to the host, with one copy per device and exact type.

    >>> Numbers([torch.tensor(0.5), None, 2.0]).result()
    [0.5, None, 2.0]
    """

    def __init__(self, values: Sequence[Value], transfer: Transfer = HostCopy) -> None:
        self._values: list[Any] = list(values)
        kinds: dict[Any, list[int]] = defaultdict(list)
        for at, value in enumerate(self._values):
            if isinstance(value, Tensor):
                kinds[value.device, value.dtype].append(at)
        banks: dict[Any, list[tuple[list[int], Tensor]]] = defaultdict(list)
        for places in kinds.values():
            stacked = torch.stack([self._values[at] for at in places])
            exact = stacked.to(exact_dtype(stacked))
            banks[exact.device, exact.dtype].append((places, exact))
        self._copies = [
            ([at for places, _ in bank for at in places], transfer(_joined(bank)))
            for bank in banks.values()
        ]

    def ready(self) -> bool:
        """Tell whether all of them have arrived; never waits."""
        return all(pending.ready() for _, pending in self._copies)

    def result(self) -> list[Any]:
        """Return the numbers in order; waits for what has not arrived."""
        for places, pending in self._copies:
            numbers = pending.result().double().tolist()
            for at, number in zip(places, numbers, strict=True):
                self._values[at] = number
        return self._values


def _joined(bank: list[tuple[list[int], Tensor]]) -> Tensor:
    return bank[0][1] if len(bank) == 1 else torch.cat([exact for _, exact in bank])


class RankMeans:
    """Means over the ranks that gave a value, on their way to the host, with one collective.

    Ranks may give values in different steps, types and on different devices: what is summed has
    one shape on all of them, room for each value and for how many there are.

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
        given = [0.0 if value is None else 1.0 for value in values]
        own = [0.0 if value is None or isinstance(value, Tensor) else value for value in values]
        sums = torch.tensor([own, given], dtype=exact)
        if device.type == "cuda":  # or the copy would wait
            sums = in_pinned(sums, room=room)
        sums = sums.to(device, non_blocking=True)
        for place, value in enumerate(values):
            if isinstance(value, Tensor):
                sums[0, place].copy_(value, non_blocking=True)
        self._pending = transfer(add(sums))

    def ready(self) -> bool:
        """Tell whether the means have arrived; never waits."""
        return self._pending.ready()

    def result(self) -> list[Any]:
        """Return the means, None where no rank gave a value; waits for the device."""
        totals, counts = self._pending.result().double().tolist()
        return [sum_ / count if count else None for sum_, count in zip(totals, counts, strict=True)]
