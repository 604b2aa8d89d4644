"""Torch may use only algorithms that give the same bits each time, some of which are slower.

## What it measures
torch's own switches when training began: `use_deterministic_algorithms` (which
`Trainer(deterministic=True)` sets) and `torch.backends.cudnn.deterministic`, on a GPU. Which of
them are on is counted in `switches_count`.

## Why it matters
Without them cuDNN takes the quickest convolution, and sums that are scattered (`index_add`, the
gradient of a lookup, of an upsampled picture) are added in any order. With them convolutions may be
slower, and such sums are sorted first.

## What to do
Leave them on for runs that must be repeated bit for bit, such as to find a bug; a seed alone makes
runs comparable.

## Thresholds
None: a switch is on or it is not. What it costs depends on the model and was not measured, so no
time is claimed and it is for information. On a CPU nothing is said.
"""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.findings.model import Effort, Finding, Horizon, Range, Severity

ID = "deterministic-algorithms"
EFFORT = Effort(Horizon.QUICK, "one argument of the Trainer", "runs differ in their last bits")
SWITCHES = (
    (
        "deterministic_algorithms",
        "torch.use_deterministic_algorithms",
        "Trainer(..., deterministic=False)",
    ),
    (
        "cudnn_deterministic",
        "torch.backends.cudnn.deterministic",
        "torch.backends.cudnn.deterministic = False",
    ),
)


def evaluate(run: RunResults) -> Finding | None:
    """Return a fact where torch may not choose."""
    settings = run.start.torch_settings
    on = {shown: change for name, shown, change in SWITCHES if settings.get(name) is True}
    if not on or not run.on_gpu:
        return None
    return Finding(
        id=ID,
        severity=Severity.INFO,
        title=f"Only deterministic algorithms are allowed ({', '.join(on)})",
        advice="Leave it on only where runs must be the same bit for bit; compare two short runs "
        "to see what it costs this model.",
        evidence={"switches_count": len(on)},
        saving_ns=Range(low=0, high=0),
        confidence=0.9,
        change="\n".join(on.values()),
    )
