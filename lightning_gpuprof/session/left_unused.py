"""Whether a machine has a GPU that a run on the CPU does not use, and why."""

import os
from collections.abc import Callable, Mapping
from typing import Any

import torch

DRIVER = "/dev/nvidia0"
"""AMD's `/dev/kfd` is there for graphics inside of a processor, too: that says nothing."""
_HIDING = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")


def gpu_left_unused(
    exists: Callable[[str], bool] = os.path.exists,
    environ: Mapping[str, str] = os.environ,
    cuda: Any = torch.cuda,
    version: Any = torch.version,
) -> str | None:
    """Return `not_used`, `not_built` or `not_found`; None where there is no GPU, or it is hidden.

    Makes no context on the device.
    """
    if any(environ.get(name, "0").strip() in ("", "-1") for name in _HIDING):
        return None  # on purpose
    if cuda.device_count():  # asks the driver's library: what forks later may still use CUDA
        return "not_used"
    if not exists(DRIVER):
        return None
    return "not_built" if version.cuda is None else "not_found"
