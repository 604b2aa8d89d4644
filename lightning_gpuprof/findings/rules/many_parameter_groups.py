"""The optimizer has many groups of parameters where a few with the same settings would do.

## What it measures
How many groups the optimizers have, and how many different settings (learning rate, decay, ...)
these have at the start of training.

## Why it matters
An optimizer updates one group after the other. What it does for many tensors at once (`fused`,
`foreach`) it does for each group: with a group for each parameter, for one tensor at a time.

## What to do
Put the parameters with the same settings into one group: collect them by their settings first.

## Thresholds
`MIN_GROUPS`: a few groups cost a few hundredths of a millisecond. At least half of them must go,
or the settings are what makes them many. `FUSED_NS`, `FOREACH_NS`, `LOOP_NS` per group that goes:
measured with 130 tensors of 48 and of 4,000 numbers, one group each against one of all (docs/adr/
0031); that is for each step of the optimizer, and no more than this takes. On a GPU, where
`foreach` is the default, launches may be hidden: the low bound is 0.
Severity: the common scale (`findings/grade.py`).
"""

from typing import Any

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.findings.grade import by_host, grade
from lightning_gpuprof.findings.model import Abstained, Effort, Finding, Horizon, Where
from lightning_gpuprof.records.phases import Phase

ID = "many-parameter-groups"
EFFORT = Effort(
    Horizon.QUICK, "a few lines in configure_optimizers", "the optimizer's state loads no more"
)
MIN_GROUPS = 8
FUSED_NS = (8_000, 26_000)
FOREACH_NS = (30_000, 45_000)
LOOP_NS = (3_000, 13_000)
CHANGE = """groups = collections.defaultdict(list)
for name, parameter in self.named_parameters():
    groups[learning_rate, weight_decay].append(parameter)  # of this parameter
torch.optim.{name}([
    dict(params=same, lr=rate, weight_decay=decay)
    for (rate, decay), same in groups.items()
], ...)"""


def evaluate(run: RunResults) -> tuple[Finding, ...] | Abstained:
    """Return a finding for each optimizer with more groups than settings."""
    optimizers: list[dict[str, Any]] = run.start.model.get("optimizers") or []
    known = [one for one in optimizers if one.get("settings") and one.get("groups")]
    if run.step_ns is None or not known:
        return Abstained(ID, "the run's records do not say which groups its optimizers have")
    return tuple(_finding(run, run.step_ns, one) for one in known if _too_many(one))


def _too_many(optimizer: dict[str, Any]) -> bool:
    groups = int(optimizer["groups"])
    return groups >= MIN_GROUPS and 2 * int(optimizer["settings"]) <= groups


def _finding(run: RunResults, step_ns: int, optimizer: dict[str, Any]) -> Finding:
    groups, settings = int(optimizer["groups"]), int(optimizer["settings"])
    name = str(optimizer["class"])
    low, high = LOOP_NS
    if optimizer.get("fused"):
        low, high = FUSED_NS
    elif optimizer.get("foreach") or (run.on_gpu and optimizer.get("foreach") is None):
        low, high = FOREACH_NS
    # Per step of the optimizer, which not every batch has, and no more goes than that takes.
    step = run.per_step(Phase.OPTIMIZER_STEP)
    gone = (groups - settings) * (1.0 if step is None else step.active_frac)
    most_ns = step_ns if step is None else min(step_ns, step.mean_ns)
    saving = by_host(round(low * gone), round(high * gone), most_ns, unsure=run.on_gpu)
    return Finding(
        id=ID,
        severity=grade(saving, step_ns),
        title=f"{name} updates {groups} parameter groups one after the other, though they have "
        f"only {settings} different setting{'s' * (settings > 1)}",
        advice="Put all parameters with the same settings into one group, unless their learning "
        "rates differ later on. The optimizer state of older checkpoints no longer fits then.",
        evidence={"groups_count": groups, "settings_count": settings, "step_ns": step_ns},
        saving_ns=saving,
        confidence=0.5 if run.on_gpu else 0.9,
        where=(Where(phase=Phase.OPTIMIZER_STEP.value, name=name),),
        change=CHANGE.format(name=name),
    )
