"""Timing events of a device, never waited for, and its numbers in NVML and AMD SMI.

Private names, seen in torch 2.2 to 2.13; without the second the stream is asked for each time:
    the base class of torch.cuda.Event, whose methods do the work
    torch._C._cuda_getCurrentStream: the current stream's number, without an object for it
    torch.cuda._get_nvml_device_index, ._get_amdsmi_device_index (2.4): without them there are no
        readings of the device, for the readers' own numbers count devices that are hidden
"""

from collections.abc import Callable
from typing import Any

import torch


class DeviceEvents:
    """`torch.cuda` events, on CUDA and HIP alike: torch gives both the same names.

    Events are made of the base class of `torch.cuda.Event`, whose methods only hand calls on.
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
        self._number_of_stream: object = None

    def new_event(self) -> Any:
        """Return an event that can take a time."""
        return self._event(enable_timing=True)

    def record(self, event: Any) -> bool:
        """Queue the event on the current stream; False, and nothing queued, during a capture."""
        if self._cuda.is_current_stream_capturing():
            return False
        # torch makes a new object at each call of `current_stream`, which takes several times as
        # long as everything else here: it is called only where another stream is current.
        current = None if self._number is None else self._number(self._index)
        if current is None or current != self._number_of_stream:
            self._stream = self._cuda.current_stream(self._index)
            self._number_of_stream = current
        event.record(self._stream)
        return True

    def query(self, event: Any) -> bool:
        """Tell whether the device has passed the event, without waiting for it."""
        return bool(event.query())

    def capturing(self) -> bool:
        """Tell whether a graph is captured: events would be part of it, queries end it."""
        return bool(self._cuda.is_current_stream_capturing())

    def elapsed_ns(self, earlier: Any, later: Any) -> int | None:
        """Return the device's time between two events; None where the later has not passed."""
        return round(earlier.elapsed_time(later) * 1e6) if later.query() else None


def device_events(device: torch.device) -> DeviceEvents | None:
    """Return the events of a device, or None for a device without timing events."""
    if device.type != "cuda":
        return None
    return DeviceEvents(device, stream_number=getattr(torch._C, "_cuda_getCurrentStream", None))


def nvml_index(device: torch.device) -> int:
    """Return NVML's number of a device, whatever CUDA_VISIBLE_DEVICES hides."""
    return int(torch.cuda._get_nvml_device_index(device))


def amdsmi_index(device: torch.device) -> int:
    """Return AMD SMI's number of a device, whatever HIP_VISIBLE_DEVICES hides."""
    return int(torch.cuda._get_amdsmi_device_index(device))
