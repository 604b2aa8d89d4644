"""Describes this machine by asking torch; run as a module, it prints JSON.

A process of its own, so that whoever asks need not load torch.
"""

import json
import sys
from typing import Any

import torch
from torch.profiler import supported_activities


def describe() -> dict[str, Any]:
    """Return torch's build, its devices and what its profiler can record."""
    activities = supported_activities()  # type: ignore[no-untyped-call]
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    return {
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "hip": torch.version.hip,
        "activities": sorted(activity.name for activity in activities),
        "devices": [
            {"name": one.name, "total_bytes": one.total_memory, "units": one.multi_processor_count}
            for one in map(torch.cuda.get_device_properties, range(count))
        ],
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(describe()))
