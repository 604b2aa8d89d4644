"""Describes this machine by asking torch. Run as a module, it prints JSON.

`doctor` runs it in a child process, so that it need not load torch itself.
"""

import sys

import msgspec
import torch
from torch.profiler import supported_activities


class DeviceDescription(msgspec.Struct, frozen=True):
    """A GPU."""

    name: str
    total_bytes: int
    units: int
    """Multiprocessors."""


class MachineDescription(msgspec.Struct, frozen=True):
    """Torch's build, the devices that it sees, and what its profiler can record."""

    torch: str
    cuda: str | None
    hip: str | None
    activities: list[str]
    devices: list[DeviceDescription]


def describe() -> MachineDescription:
    """Return torch's build, its devices and what its profiler can record."""
    activities = supported_activities()  # type: ignore[no-untyped-call]
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    properties = [torch.cuda.get_device_properties(index) for index in range(count)]
    return MachineDescription(
        torch=str(torch.__version__),
        cuda=torch.version.cuda,
        hip=torch.version.hip,
        activities=sorted(activity.name for activity in activities),
        devices=[
            DeviceDescription(device.name, device.total_memory, device.multi_processor_count)
            for device in properties
        ],
    )


if __name__ == "__main__":
    sys.stdout.buffer.write(msgspec.json.encode(describe()))
