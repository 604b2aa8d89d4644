"""Timing events of a device: recorded on its current stream, asked for later, never waited for."""

from typing import Any, Protocol

import torch
from typing_extensions import override


class DeviceEvents(Protocol):
    """What marks need of a device; `Any` is the device's own event object."""

    def new_event(self) -> Any:
        """Return an event that can take a time."""
        ...

    def record(self, event: Any) -> bool:
        """Queue the event on the current stream: it completes after what was queued before.

        Returns:
            False, and nothing is queued, while the stream is being captured.
        """
        ...

    def query(self, event: Any) -> bool:
        """Tell whether the device has passed the event, without waiting for it."""
        ...

    def capturing(self) -> bool:
        """Tell whether the current stream is being captured in a graph.

        An event recorded then would belong to the graph, and asking for one ends the capture.
        """
        ...

    def elapsed_ns(self, earlier: Any, later: Any) -> int | None:
        """Return the device's own time between an event that it has passed and another one.

        None where it has not passed that one yet.
        """
        ...


class TorchEvents(DeviceEvents):
    """`torch.cuda` events, on CUDA and HIP alike: torch gives both the same names.

    The methods that `torch.cuda.Event` puts around those of the class below it only hand calls on,
    at half the price of what they call; objects of that class itself are the same events.

    Args:
        device: Whose current stream they are recorded on, whichever device is the current one: an
            event belongs to the device that it was first recorded on.
        cuda: Stands in for `torch.cuda` in tests.
        c: Stands in for `torch._C` in tests.
    """

    def __init__(self, device: torch.device, *, cuda: Any = torch.cuda, c: Any = torch._C) -> None:
        self._index, self._cuda = device.index, cuda
        below = cuda.Event.__base__
        self._event = cuda.Event if below is object else below
        # Without an index it is the current device, whose number the quick way does not look up.
        found = getattr(c, "_cuda_getCurrentStream", None)
        self._current = None if device.index is None else found
        self._stream: Any = None
        self._known: object = None

    @override
    def new_event(self) -> Any:
        return self._event(enable_timing=True)

    @override
    def record(self, event: Any) -> bool:
        if self._cuda.is_current_stream_capturing():
            return False
        # torch makes a new Python object each time that it is asked for the stream, which takes
        # several times as long as all else here: only where another one is current is it asked.
        current = self._current
        known = None if current is None else current(self._index)
        if known is None or known != self._known:
            self._stream, self._known = self._cuda.current_stream(self._index), known
        event.record(self._stream)
        return True

    @override
    def query(self, event: Any) -> bool:
        return bool(event.query())

    @override
    def capturing(self) -> bool:
        return bool(self._cuda.is_current_stream_capturing())

    @override
    def elapsed_ns(self, earlier: Any, later: Any) -> int | None:
        return round(earlier.elapsed_time(later) * 1e6) if later.query() else None


def device_events(device: torch.device) -> DeviceEvents | None:
    """Return the events of a device, or None for one that has none to time with.

    >>> device_events(torch.device("cpu")) is None
    True
    """
    return TorchEvents(device) if device.type == "cuda" else None
