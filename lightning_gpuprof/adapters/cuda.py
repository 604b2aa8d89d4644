"""Numbers of CUDA's streams and devices that torch does not give publicly.

Private names, seen in torch 2.2 to 2.13:
    torch._C._cuda_getCurrentStream: without it `torch.cuda.current_stream` is asked each time
    torch.cuda._get_nvml_device_index, ._get_amdsmi_device_index (2.4): without them there are no
        readings of the device, for the readers' own numbers count devices that are hidden
"""

from collections.abc import Callable
from typing import Any

import torch


def current_stream_number(c: Any = torch._C) -> Callable[[int], object] | None:
    """Return the function that gives a device's current stream as a number, where torch has it."""
    found: Callable[[int], object] | None = getattr(c, "_cuda_getCurrentStream", None)
    return found


def nvml_index(device: torch.device) -> int:
    """Return NVML's number of a device, whatever CUDA_VISIBLE_DEVICES hides.

    Raises:
        AttributeError: This torch does not say.
    """
    return int(torch.cuda._get_nvml_device_index(device))


def amdsmi_index(device: torch.device) -> int:
    """Return AMD SMI's number of a device, whatever HIP_VISIBLE_DEVICES hides.

    Raises:
        AttributeError: This torch does not say.
    """
    return int(torch.cuda._get_amdsmi_device_index(device))
