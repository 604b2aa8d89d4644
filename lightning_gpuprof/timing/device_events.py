"""Timing events of a device: recorded on its current stream, asked for later, never waited for."""

from collections.abc import Callable
from typing import Any, Protocol

import torch
from typing_extensions import override

from lightning_gpuprof.adapters.cuda import current_stream_number


class DeviceEvents(Protocol):
    """The operations that marks need of a device; `Any` is the device's own event object."""

    def new_event(self) -> Any:
        """Return an event that can take a time."""
        ...

    def record(self, event: Any) -> bool:
        """Queue the event on the current stream; False, and nothing queued, during a capture."""
        ...

    def query(self, event: Any) -> bool:
        """Tell whether the device has passed the event, without waiting for it."""
        ...

    def capturing(self) -> bool:
        """Tell whether the current stream is being captured in a graph.

        An event recorded then would belong to the graph, and a query ends the capture.
        """
        ...

    def elapsed_ns(self, earlier: Any, later: Any) -> int | None:
        """Return the device's time from an event that it has passed to another; None before."""
        ...


class TorchEvents(DeviceEvents):
    """`torch.cuda` events, on CUDA and HIP alike: torch gives both the same names.

    Events are made of the base class of `torch.cuda.Event`, whose methods only hand calls on.

    Args:
        device: Events are recorded on its current stream, whichever device is the current one.
        cuda: Stands in for `torch.cuda` in tests.
        stream_number: Gives the current stream's number; None asks for the stream each time.
    """

    def __init__(
        self,
        device: torch.device,
        *,
        cuda: Any = torch.cuda,
        stream_number: Callable[[int], object] | None = None,
    ) -> None:
        self._index, self._cuda = device.index, cuda
        base = cuda.Event.__base__
        self._event = cuda.Event if base is object else base
        # Without an index it is the current device, whose number the quick way does not look up.
        self._number = None if device.index is None else stream_number
        self._stream: Any = None
        self._known: object = None

    @override
    def new_event(self) -> Any:
        return self._event(enable_timing=True)

    @override
    def record(self, event: Any) -> bool:
        if self._cuda.is_current_stream_capturing():
            return False
        # torch makes a new object for each answer, which takes several times as long as all else
        # here: it is asked only where another stream is current.
        number = self._number
        known = None if number is None else number(self._index)
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
    if device.type != "cuda":
        return None
    return TorchEvents(device, stream_number=current_stream_number())


MAX_ERROR_NS = 100_000
"""A calibration that is vaguer than this is dropped: launch latency is a tenth of it."""
_RATE_AFTER_NS = 10_000_000_000


class DeviceClock:
    """The line from device time to host time, in integer ns.

    A calibration records an event while the device is idle and asks for it until it has passed:
    not yet at host time `low`, but at `high`. So `(low + high) / 2 - device time` is the offset,
    wrong by at most half the distance. The rate at which the clocks drift apart comes from the
    first and the newest calibration, once they are ten seconds apart. No device passes an event
    before the host recorded it: where the line says so, the offset is raised.

    >>> clock = DeviceClock()
    >>> clock.calibrate(1_000, low_ns=50_000, high_ns=50_010)
    True
    >>> clock.run_ahead(3_000, 52_000), clock.error_ns
    (5, 5)
    """

    def __init__(self) -> None:
        self.error_ns: int | None = None
        self._first: tuple[int, int] | None = None
        self._newest_ns = self._offset_ns = 0
        self._rate = 0.0

    def calibrate(self, device_ns: int, *, low_ns: int, high_ns: int) -> bool:
        """Take a calibration; returns whether it was sharp enough to be of use."""
        error = (high_ns - low_ns) // 2
        if error > MAX_ERROR_NS:
            return False
        offset = low_ns + error - device_ns
        if self._first is None:
            self._first = (device_ns, offset)
        first_ns, first_offset = self._first
        if device_ns - first_ns >= _RATE_AFTER_NS:
            self._rate = (offset - first_offset) / (device_ns - first_ns)
        self._newest_ns, self._offset_ns, self.error_ns = device_ns, offset, error
        return True

    def run_ahead(self, device_ns: int, recorded_ns: int) -> int | None:
        """Return how long after the host recorded an event (host time) the device passed it.

        None before the first calibration.
        """
        if self.error_ns is None:
            return None
        drifted = round(self._rate * (device_ns - self._newest_ns))
        ahead = device_ns + self._offset_ns + drifted - recorded_ns
        if ahead < 0:
            self._offset_ns -= ahead
            return 0
        return ahead
