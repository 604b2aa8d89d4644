"""The machine has a GPU, and the run trains on the CPU.

## What it measures
Whether torch sees a GPU that the Trainer does not use, or sees none though NVIDIA's driver has one
(`/dev/nvidia0`): a torch built without CUDA, or one that does not fit the driver.

## Why it matters
Lightning takes the GPU by itself where torch sees one; where torch does not, it trains on the CPU
and says so in one line at the start.

## What to do
Install torch for the GPU (pytorch.org/get-started has the command), or a driver that is new enough
for it. Where a GPU is seen: `Trainer(accelerator="auto")`. To train on the CPU on purpose hide the
GPU (`CUDA_VISIBLE_DEVICES=""`): then nothing is said.

## Thresholds
None. Where torch sees the GPU the program chose the CPU, so that is for information. What a GPU
would save is not known: no time is claimed.
"""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.findings.model import Effort, Finding, Horizon, Range, Severity

ID = "gpu-left-unused"
EFFORT = Effort(Horizon.QUICK, "another torch, driver or argument", "sums are rounded otherwise")
_WHY = dict(
    not_used=(
        "A GPU is there, and the Trainer was told to train on the CPU",
        'Train on it, unless the CPU was chosen on purpose: Trainer(accelerator="auto").',
        'Trainer(accelerator="auto")',
    ),
    not_built=(
        "A GPU is there, and this torch was built without CUDA: the run is on the CPU",
        "Install torch for the GPU: pytorch.org/get-started has the command.",
        'python -c "import torch; print(torch.__version__, torch.version.cuda)"',
    ),
    not_found=(
        "A GPU's driver is there, and torch finds no GPU: the run is on the CPU",
        "The driver may be too old for this torch, or the device not to be reached from here (a "
        "container without it, permissions): `nvidia-smi` shows the driver's version.",
        'python -c "import torch; torch.cuda.init()"  # says why',
    ),
)


def evaluate(run: RunResults) -> Finding | None:
    """Return a fact where a GPU was left unused."""
    known = _WHY.get(run.start.gpu_left_unused or "")
    if known is None or run.on_gpu:
        return None
    title, advice, change = known
    chosen = run.start.gpu_left_unused == "not_used"
    return Finding(
        id=ID,
        severity=Severity.INFO if chosen else Severity.WARNING,
        title=title,
        advice=advice,
        evidence={},
        saving_ns=Range(low=0, high=0),
        confidence=0.9,
        change=change,
    )
