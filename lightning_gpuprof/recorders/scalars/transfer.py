"""Copies tensors to the host without making the host wait for the device."""

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import torch
from torch import Tensor


class Pending(Protocol):
    """A copy to the host that has been queued."""

    def ready(self) -> bool:
        """Tell whether the values have arrived; never waits."""
        ...

    def result(self) -> Tensor:
        """Return the values on the host; waits where they have not arrived."""
        ...


Transfer = Callable[[Tensor], Pending]
"""Queues a copy of a tensor's present values to the host."""


class Arrived:
    """A copy that is complete: the tensor was on the host already."""

    def __init__(self, values: Tensor) -> None:
        self._values = values

    def ready(self) -> bool:
        """Always true."""
        return True

    def result(self) -> Tensor:
        """Return the values."""
        return self._values


class PinnedCopy:
    """A copy on the current stream into pinned memory, with an event behind it.

    Only pinned memory lets a copy be asynchronous: into pageable memory CUDA and HIP make the
    host wait, whatever `non_blocking` says.

    Args:
        values: What is copied.
        room: Numbers to allocate for, where there are fewer.
    """

    def __init__(self, values: Tensor, *, room: int = 0) -> None:
        self._host = in_pinned(values, room=room)
        self._event: Any = torch.cuda.Event()  # type: ignore[no-untyped-call]
        self._event.record(torch.cuda.current_stream(values.device))

    def ready(self) -> bool:
        """Tell whether the device has passed the event; never waits."""
        return bool(self._event.query())

    def result(self) -> Tensor:
        """Return the values; waits for the event where the device has not passed it."""
        self._event.synchronize()
        return self._host


def pinned(count: int, dtype: torch.dtype) -> Tensor:
    """Allocate pinned memory for so many numbers."""
    return torch.empty(count, dtype=dtype, pin_memory=True)


def in_pinned(values: Tensor, *, room: int = 0) -> Tensor:
    """Copy values into pinned memory, asynchronously from a device.

    Args:
        values: What is copied.
        room: Numbers to allocate for, where there are fewer.
    """
    count = values.numel()
    host = pinned(max(room, count), values.dtype)[:count].view(values.shape)
    return host.copy_(values, non_blocking=True)


def with_room(count: int, device: torch.device) -> Transfer:
    """Return `to_host` for float64, its memory for so many numbers at a time allocated already.

    To allocate pinned memory may make the host wait for the device, so it has no place in a step.
    torch keeps freed memory for the next piece of that size: hence all copies have one size, and
    there are three pieces: to fill, to read and, with several ranks, to send.
    """
    if device.type == "cuda":
        pieces = [pinned(count, torch.float64) for _ in range(3)]
        del pieces
    return partial(to_host, room=count)


def to_host(values: Tensor, *, room: int = 0) -> Pending:
    """Queue a copy of the present values to the host, asynchronous where the device allows.

    Args:
        values: Any tensor; later writes to it do not show in the copy.
        room: Numbers to allocate pinned memory for, where there are fewer.

    >>> to_host(torch.tensor([1.0, 2.0])).result().tolist()
    [1.0, 2.0]
    """
    if values.device.type == "cuda":  # HIP devices carry this name in torch too
        return PinnedCopy(values, room=room)
    return Arrived(values.to("cpu", copy=True))
