"""Another process holds memory on the device, and maybe its time.

## What it measures
`others_bytes` and `others_count`: the most that other processes held on the device, and how many
they were, by the driver's list (NVML, AMD SMI). Where the driver does not tell processes apart, as
in most containers, nothing is said.

## Why it matters
Processes on one device take turns: steps become slower and uneven, measurements are not this run's
alone, and memory that is free now may be gone at the next allocation.

## What to do
See who it is with `nvidia-smi` or `rocm-smi`: often a notebook, or a run that was thought to have
ended. Stop it, or train on another device (`CUDA_VISIBLE_DEVICES`).

## Thresholds
`MIN_BYTES`: 256 MiB, less than the CUDA context of one idle process takes with its libraries on a
recent card: our judgement. No time is claimed: what the other process takes is not measured.
"""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.findings.model import Abstained, Effort, Finding, Horizon, Range, Severity
from lightning_gpuprof.units import size

ID = "shared-device"
EFFORT = Effort(Horizon.QUICK, "stop a process, or choose another device", "none to the model")
MIN_BYTES = 256 * 2**20
WITHOUT = (
    "the driver's list of processes was not read: it takes nvidia-ml-py or amdsmi, and some "
    "seconds of training"
)


def evaluate(run: RunResults) -> Finding | Abstained | None:
    """Return a finding where somebody else is on the device."""
    use = run.device_use
    if use is None or use.others_bytes is None:
        return Abstained(ID, WITHOUT)
    if use.others_bytes < MIN_BYTES:
        return None
    count = use.others_count or 1
    several = f"{count} other processes hold" if count > 1 else "Another process holds"
    return Finding(
        id=ID,
        severity=Severity.WARNING,
        title=f"{several} {size(use.others_bytes)} on this device",
        advice="Stop it, or train on another device: both slow each other down, and the memory "
        "that is left may shrink.",
        evidence={"others_bytes": use.others_bytes, "others_count": count},
        saving_ns=Range(low=0, high=0),
        confidence=0.9,
        change="nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv",
    )
