"""Timing events of a device, and the numbers of the device in NVML and AMD SMI.

Private names in torch 2.2 to 2.13, and what happens without them:
    the base class of torch.cuda.Event, whose methods do the work: the class itself is used
    torch._C._cuda_getCurrentStream, the number of the current stream: every event takes longer
    torch.cuda._get_nvml_device_index, ._get_amdsmi_device_index (2.4): the device is not read,
        since NVML and AMD SMI also count devices that are hidden from torch
"""

from collections.abc import Callable
from typing import Any

import torch


class DeviceEvents:
    """The timing events of a CUDA or HIP device, which nobody waits for.

    They are objects of the base class of `torch.cuda.Event`, whose own methods only hand calls on.
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
        # Without an index this is the current device, for which `stream_number` cannot be used.
        self._number = None if device.index is None else stream_number
        self._stream: Any = None
        self._number_of_stream: object = None

    def new_event(self) -> Any:
        """Return a new timing event."""
        return self._event(enable_timing=True)

    def record(self, event: Any) -> bool:
        """Queue the event on the current stream; return False if a graph is being captured."""
        if self._cuda.is_current_stream_capturing():
            return False
        # `current_stream` creates a new object at every call, which takes several times as long as
        # all the rest here. Therefore it is called only when another stream has become current.
        current = None if self._number is None else self._number(self._index)
        if current is None or current != self._number_of_stream:
            self._stream = self._cuda.current_stream(self._index)
            self._number_of_stream = current
        event.record(self._stream)
        return True

    def query(self, event: Any) -> bool:
        """Return whether the device has passed the event. Never waits."""
        return bool(event.query())

    def capturing(self) -> bool:
        """Return whether a graph is being captured, which an event would join and a query end."""
        return bool(self._cuda.is_current_stream_capturing())

    def elapsed_ns(self, earlier: Any, later: Any) -> int | None:
        """Return the device's time between two events; None before it has passed the later one."""
        return round(earlier.elapsed_time(later) * 1e6) if later.query() else None


def device_events(device: torch.device) -> DeviceEvents | None:
    """Return the events of a device, or None for a device without timing events."""
    if device.type != "cuda":
        return None
    return DeviceEvents(device, stream_number=getattr(torch._C, "_cuda_getCurrentStream", None))


def nvml_index(device: torch.device) -> int:
    """Return NVML's number of a device, which counts devices that CUDA_VISIBLE_DEVICES hides."""
    return int(torch.cuda._get_nvml_device_index(device))


def amdsmi_index(device: torch.device) -> int:
    """Return AMD SMI's number of a device, which counts devices that HIP_VISIBLE_DEVICES hides."""
    return int(torch.cuda._get_amdsmi_device_index(device))
