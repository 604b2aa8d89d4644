"""The numbers that NVML and AMD SMI give to devices.

Private names, seen in torch 2.2 to 2.13:
    torch.cuda._get_nvml_device_index, ._get_amdsmi_device_index (2.4): without them there are no
        readings of the device, for the readers' own numbers count devices that are hidden
"""

import torch


def nvml_index(device: torch.device) -> int:
    """Return NVML's number of a device, whatever CUDA_VISIBLE_DEVICES hides."""
    return int(torch.cuda._get_nvml_device_index(device))


def amdsmi_index(device: torch.device) -> int:
    """Return AMD SMI's number of a device, whatever HIP_VISIBLE_DEVICES hides."""
    return int(torch.cuda._get_amdsmi_device_index(device))
