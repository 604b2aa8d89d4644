"""Another process holds memory on the device, and maybe its time.

## Symptom
The driver lists other processes with memory on this device.

## Why
Processes on one device take turns: steps get slower and vary, and memory that is free now may be
gone at the next allocation.

## Fix
Find the process, often a notebook or a run that never ended. Stop it, or use another device.

```sh
python train.py                          # before
CUDA_VISIBLE_DEVICES=1 python train.py   # after
```

## How it is measured
`others_bytes`, `others_count`: by the driver's list (NVML, AMD SMI). From 256 MiB.

## Limits
In most containers the driver does not list processes. No time is claimed.
"""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.findings.model import Effort, Finding, Horizon, Severity
from lightning_gpuprof.findings.rule import measured, rule
from lightning_gpuprof.units import size

MIN_BYTES = 256 * 2**20
EFFORT = Effort(Horizon.QUICK, "stop a process, or choose another device", "none to the model")


@rule(id="shared-device", needs=("device readings",), effort=EFFORT)
def judge(run: RunResults) -> Finding | None:
    """Return a finding where somebody else is on the device."""
    use = measured(run.device_use)
    if use.max_others_bytes is None or use.max_others_bytes < MIN_BYTES:
        return None
    count = use.max_others_count or 1
    several = f"{count} other processes hold" if count > 1 else "Another process holds"
    return Finding(
        severity=Severity.WARNING,
        title=f"{several} {size(use.max_others_bytes)} on this device",
        advice="Stop it, or take another device: they slow each other down, and free memory "
        "may shrink.",
        evidence={"others_bytes": use.max_others_bytes, "others_count": count},
        confidence=0.9,
        change="nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv",
    )
