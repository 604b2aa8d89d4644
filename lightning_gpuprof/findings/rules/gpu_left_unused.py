"""The machine has a GPU, and the run trains on the CPU.

## Symptom
torch sees a GPU that the Trainer does not use, or sees none though the driver has one.

## Why
torch was built without CUDA, does not fit the driver, or the program asked for the CPU.

## Fix
Install torch for the GPU (pytorch.org/get-started) or a newer driver, and let Lightning choose.

```python
Trainer(accelerator="cpu")  # before
Trainer(accelerator="auto")  # after
```

## How it is measured
`torch.cuda.is_available()` and `/dev/nvidia0`, once at the start.

## Limits
A CPU that the program chose is `info`; hide the GPU (`CUDA_VISIBLE_DEVICES=""`) to silence this.
No time is claimed.
"""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.findings.model import Effort, Finding, Horizon, Severity
from lightning_gpuprof.findings.rule import rule

EFFORT = Effort(Horizon.QUICK, "another torch, driver or argument", "sums are rounded otherwise")
WHY = dict(
    not_used=(
        "A GPU is there, but the Trainer uses the CPU",
        'Train on it, unless the CPU was chosen on purpose: Trainer(accelerator="auto").',
        'Trainer(accelerator="auto")',
    ),
    not_built=(
        "A GPU is there, but this torch was built without CUDA",
        "Install torch for the GPU: pytorch.org/get-started has the command.",
        'python -c "import torch; print(torch.__version__, torch.version.cuda)"',
    ),
    not_found=(
        "A GPU driver is there, but torch finds no GPU",
        "The driver may be too old for this torch (`nvidia-smi` shows its version), or the device "
        "is not accessible here (container, permissions).",
        'python -c "import torch; torch.cuda.init()"  # says why',
    ),
)


@rule(id="gpu-left-unused", effort=EFFORT)
def judge(run: RunResults) -> Finding | None:
    """Return a fact where a GPU was left unused."""
    known = WHY.get(run.start.gpu_left_unused or "")
    if known is None or run.on_gpu:
        return None
    title, advice, change = known
    chosen = run.start.gpu_left_unused == "not_used"
    return Finding(
        severity=Severity.INFO if chosen else Severity.WARNING,
        title=title,
        advice=advice,
        evidence={},
        confidence=0.9,
        change=change,
    )
