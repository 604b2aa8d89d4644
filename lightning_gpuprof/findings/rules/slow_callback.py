"""A callback, or a hook of the module, takes a noticeable share of every step.

## What it measures
`callback_ns`: mean time per steady step inside one callback's hooks, or in one hook of the module,
on the host clock, under its own name; hooks that run in only some steps are spread over all of
them.

## Why it matters
Lightning calls every callback in the training loop, one after the other; nothing of the next step
begins before the last one returns.

## What to do
Do the work less often, move it out of the step hooks (`on_train_epoch_end`), or hand it to a
thread. In one that reads values off the device (`.item()`, `.cpu()`), keep them on the device and
read them once in many steps (`DeferredLoss`).

What changes weights, gradients or learning rates (a scheduler's step) must stay in every step, or
the training is another one: make it cheaper instead. An average of the weights may come once in N
steps with its decay to the power of N.

## Thresholds
`EVERY_N_STEPS`: the change proposed, one step in 50, is Lightning's own default for logging; it
leaves 2% of the cost, the low bound allows for work that must stay. One that works in few steps as
it is (`RARE`: at the median it takes next to nothing) is proposed a fifth as often (`FEWER`,
`findings/grade.py`), and leaves that of the cost. Where one step has most of all that it took
(`ONCE_FRAC`), nothing is said: what was done once is not known to come again. On a GPU only the
time the device stood idle counts (`savings/hidden.py`). Severity: the common scale
(`findings/grade.py`).
"""

import re

from lightning_gpuprof.analysis.run.phase_split import Part, PerStep
from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.savings.hidden import exposed
from lightning_gpuprof.findings.grade import grade, seldom
from lightning_gpuprof.findings.model import Abstained, Effort, Finding, Horizon, Range, Where
from lightning_gpuprof.findings.rules.slow_logging import norm_hooks
from lightning_gpuprof.records.phases import STOP_CHECK, Phase
from lightning_gpuprof.units import duration, percent

ID = "slow-callback"
EFFORT = Effort(
    Horizon.QUICK,
    "one setting, or a few lines in the callback",
    "its output comes less often; what changes weights or gradients must stay in every step",
)
EVERY_N_STEPS = 50
LEFT_FRAC = 0.1
ONCE_FRAC = 0.5
RARE = 0.1
"""A median below this share of the mean: the work is done in few of the steps."""
OWN = {"GpuProfCallback", "PhaseTimer", "ProfilerSchedule", "DeferredLoss", "BatchSizeAdvisor"}
"""This package's own: their cost is reported as such, not as the user's to change."""
SCHEDULER = "lr_scheduler_step"
_WEIGHTS = r"(Weights?|Models?|Param(eter)?s?)"
AVERAGE = re.compile(
    rf"EMA|Ema(?![a-z])|Polyak|SWA|{_WEIGHTS}Averag|Averag(e|ed|ing)(Of)?{_WEIGHTS}"
)
"""Names of callbacks that keep an average of the weights, such as Lightning's `WeightAveraging`;
one that averages losses only reports."""
MOST = 3
"""Callbacks named at most: the longest matter, a list of all is in the report."""
KNOWN = {
    "TQDMProgressBar": f"TQDMProgressBar(refresh_rate={EVERY_N_STEPS})",
    "RichProgressBar": f"RichProgressBar(refresh_rate={EVERY_N_STEPS})",
    "LearningRateMonitor": 'LearningRateMonitor(logging_interval="epoch")',
    "DeviceStatsMonitor": "Trainer(callbacks=[...])  # without DeviceStatsMonitor",
    "ModelCheckpoint": "ModelCheckpoint(every_n_epochs=1)",
}
"""The setting that makes one of Lightning's own callbacks do less in each step."""
EXPLAINS = ("host-sync", "step-time-jitter")
"""What is done there in each step, or in one of many, is timed by its name."""


def evaluate(run: RunResults) -> tuple[Finding, ...] | Abstained | None:
    """Return a finding for each of the longest callbacks."""
    if run.step_ns is None or run.per_step(Phase.CALLBACKS) is None:
        return Abstained(ID, "no step's callbacks were measured")
    to_log = norm_hooks(run)
    parts = [
        part
        for part in (*run.parts_of(Phase.CALLBACKS), *run.parts_of(Phase.OTHER))
        if part.per_step is not None and part.name not in (*OWN, STOP_CHECK) and part not in to_log
    ]
    parts = [part for part in parts if _comes_again(run, part)]
    parts.sort(key=lambda part: -part.total_ns)
    return tuple(_finding(run, part, run.step_ns) for part in parts[:MOST])


def _finding(run: RunResults, part: Part, step_ns: int) -> Finding:
    assert part.per_step is not None
    cost_ns = part.per_step.mean_ns
    lost = exposed(run, part.phase, cost_ns)
    works_every = _works_every(part.per_step)
    every = max(EVERY_N_STEPS, seldom(works_every, 1, wanted=0.0))
    left_frac = works_every / every
    saving = Range(
        low=round(lost.low_ns * (1 - max(LEFT_FRAC, left_frac))),
        high=round(lost.high_ns * (1 - left_frac)),
    )
    return Finding(
        id=ID,
        severity=grade(saving, step_ns),
        title=f"{part.name} takes {duration(cost_ns)} of each step ({percent(cost_ns / step_ns)})",
        advice=_advice(part, every),
        evidence={
            "callback_ns": cost_ns,
            "callback_frac": cost_ns / step_ns,
            "callback_max_ns": part.per_step.max_ns,
            "active_steps_count": part.active_steps,
            "step_ns": step_ns,
        },
        saving_ns=saving,
        confidence=0.5 if lost.basis == "unknown" else 0.9,
        where=(Where(phase=part.phase.value, name=part.name),),
        change=None if trains(part.name) else _change(part, every, works_every),
        explains=EXPLAINS,
    )


def _comes_again(run: RunResults, part: Part) -> bool:
    steps = run.steps.dur.count if run.steps else 1
    taken = part.per_step
    return taken is not None and taken.max_ns <= ONCE_FRAC * taken.mean_ns * steps


def _works_every(taken: PerStep) -> int:
    """Return in every how many steps a callback does the most of what it does."""
    if taken.median_ns >= RARE * taken.mean_ns:
        return 1
    return max(1, round(taken.max_ns / max(1, taken.mean_ns)))


def trains(name: str) -> bool:
    """Tell whether a callback or hook, by its name, decides what is learned."""
    return name == SCHEDULER or AVERAGE.search(name) is not None


def _advice(part: Part, every: int) -> str:
    if part.name == SCHEDULER:
        return (
            "Make the scheduler's own function cheap: read files and build tables once, in "
            "configure_optimizers, and only look up in each call. To call it less often would "
            "change the learning rates."
        )
    if AVERAGE.search(part.name):
        return (
            f"Update {part.name}'s average once in N steps with decay ** N, N small beside "
            "1 / (1 - decay): it reaches as far back (EMAWeightAveraging: update_every_n_steps). "
            "An equal mean (SWA) is then of fewer steps. If it must be in each step, update all "
            "tensors in place, in one call (torch._foreach_lerp_): that saves less."
        )
    advice = (
        f"Run {part.name}'s work once in {every} steps, or move it to the epoch's end or a thread."
    )
    if part.name in KNOWN:
        return advice
    return (
        f"{advice} That is for what it reports: where it changes weights, gradients or the "
        "batch, less often is another training, so make it cheaper instead."
    )


def _change(part: Part, every: int, works_every: int) -> str:
    if part.name in KNOWN:
        return KNOWN[part.name]
    rare = works_every > 1
    if part.phase is Phase.OTHER:
        return (
            f"def {part.name}(self, *args):\n"
            f"    if self.trainer.global_step % {every} == 0:\n"
            f"        ...  # as before{', without a condition of its own' if rare else ''}"
        )
    if rare:
        # Beside its own condition (batch_idx % 20 == 0) the two might never hold in one step.
        return (
            f"# in {part.name}, in place of its condition (true in about one step of "
            f"{works_every})\n"
            f"if trainer.global_step % {every} == 0:\n"
            "    ...  # as before"
        )
    return (
        f"# in {part.name}, first in the hook that takes the time\n"
        f"if trainer.global_step % {every}:\n"
        "    return"
    )
