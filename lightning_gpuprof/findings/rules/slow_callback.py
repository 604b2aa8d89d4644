"""A callback, or a hook of the module, takes a noticeable share of every step.

## Symptom
One callback, or one hook of the module, takes long in the training loop.

## Why
Lightning calls callbacks one after the other, and the next step begins when the last one returns.

## Fix
Do the work in one step of many, at the end of the epoch, or in a thread. If the work changes
weights, gradients or learning rates, make it cheaper instead.

```python
def on_train_batch_end(self, trainer, *args):  # before: in every step
    self.draw()

    if trainer.global_step % 50 == 0:  # after
        self.draw()
```

Outside training, every batch's output is usually wanted. Make the work of many batches in one go
(write a file for fifty batches rather than fifty files), or hand it to a thread.

## How it is measured
`callback_ns` is the mean host time per step inside it. Working in one step of 50 leaves 2% of it;
at least a tenth may have to stay. Outside training, half or more of it may go.

## Limits
Work that was done only once is not reported. On a GPU, only the time in which the device is idle
counts.
"""

from lightning_gpuprof.analysis.run.phase_split import Part, PerStep
from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.settings import settings_of
from lightning_gpuprof.analysis.savings.serial import without_serial_work
from lightning_gpuprof.findings.grade import ONCE_FRAC, seldom
from lightning_gpuprof.findings.hooks import AVERAGE, SCHEDULER, norm_hooks, trains
from lightning_gpuprof.findings.model import Effort, Finding, Horizon, Place, Range
from lightning_gpuprof.findings.rule import measured, rule
from lightning_gpuprof.records.phases import OWN_CALLBACKS, STOP_CHECK, Phase
from lightning_gpuprof.units import duration, percent

EVERY_N_STEPS = 50
LEFT_FRAC = 0.1
OUTSIDE_LEFT_FRAC = 0.5
"""What may have to stay of work on each batch's output, which can be made cheaper but not rarer."""
RARE = 0.1
"""If the median is below this share of the mean, the work is done in few of the steps."""
MOST = 3
SETTINGS = {
    "TQDMProgressBar": f"TQDMProgressBar(refresh_rate={EVERY_N_STEPS})",
    "RichProgressBar": f"RichProgressBar(refresh_rate={EVERY_N_STEPS})",
    "LearningRateMonitor": 'LearningRateMonitor(logging_interval="epoch")',
    "DeviceStatsMonitor": "Trainer(callbacks=[...])  # without DeviceStatsMonitor",
    "ModelCheckpoint": "ModelCheckpoint(every_n_epochs=1)",
}
"""Settings that make Lightning's own callbacks do less in each step."""
SCHEDULED = (
    "Make the scheduler's function cheap: read files and build tables once, before training."
)
AVERAGED = (
    "Update {name}'s average once in N steps with decay ** N (EMAWeightAveraging: "
    "update_every_n_steps), or update all tensors in one call (torch._foreach_lerp_)."
)
OFTEN = "Run {name}'s work once in {every} steps, or move it to the epoch's end or a thread."
OUTSIDE_TRAINING = (
    "Do the work of {name} for many batches in one go, at the end, or in a thread: "
    "call what takes the time once for many batches instead of once for every batch."
)
UNLESS = " If it changes weights, gradients or the batch, make it cheaper instead."
EFFORT = Effort(
    Horizon.QUICK,
    "a condition in the callback",
    "its output comes less often; what changes weights or gradients must stay in every step",
)
SETTING_EFFORT = Effort(Horizon.QUICK, "one setting", "its output comes less often")
SCHEDULER_EFFORT = Effort(Horizon.QUICK, "the scheduler's function", "none")
AVERAGE_EFFORT = Effort(Horizon.QUICK, "one setting, or a few lines", "the average is coarser")


OUTPUT_EFFORT = Effort(
    Horizon.MEDIUM, "the work for many batches in one call", "its output comes later"
)


@rule(id="slow-callback", needs=("steps",), effort=EFFORT)
def judge(run: RunResults) -> tuple[Finding, ...]:
    """Return findings about the callbacks and hooks that take longest."""
    logging_hooks = norm_hooks(run)
    parts = [
        part
        for part in (*run.parts_of(Phase.CALLBACKS), *run.parts_of(Phase.OTHER))
        if part.name not in (*OWN_CALLBACKS, STOP_CHECK, settings_of(run.start).profiler)
        and part not in logging_hooks
        and _is_repeated(run, part)
    ]
    parts.sort(key=lambda part: -part.total_ns)
    return tuple(_finding(run, part) for part in parts[:MOST])


def _finding(run: RunResults, part: Part) -> Finding:
    per_step, step_ns = measured(part.per_step), measured(run.step_ns)
    works_every = _works_every(per_step)
    every = max(EVERY_N_STEPS, seldom(works_every, 1, wanted=0.0))
    left_frac = works_every / every
    gone_frac = (1 - max(LEFT_FRAC, left_frac), 1 - left_frac)
    if not run.trains:
        gone_frac = (1 - OUTSIDE_LEFT_FRAC, 1.0)
    lost = without_serial_work(
        run,
        part.phase,
        works_every * per_step.mean_ns,
        works_every,
        gone_frac=gone_frac,
    )
    return Finding(
        title=f"{part.name} takes {duration(per_step.mean_ns)} of each step "
        f"({percent(per_step.mean_ns / step_ns)})",
        advice=_advice(run, part.name, every),
        evidence={
            "callback_ns": per_step.mean_ns,
            "callback_max_ns": per_step.max_ns,
            "active_steps_count": part.active_steps,
        },
        saving_ns=Range(lost.low_ns, lost.high_ns),
        cause_ns=Range(per_step.mean_ns, per_step.mean_ns),
        confidence=0.5 if lost.basis == "unknown" else 0.9,
        places=(Place(phase=part.phase.value, name=part.name),),
        change=_change(run, part, every, works_every),
        explains=("host-sync", "step-time-jitter"),
        effort=_effort(run, part.name),
    )


def _is_repeated(run: RunResults, part: Part) -> bool:
    """Return whether no single step has most of the part's time."""
    steps = run.steps.dur.count if run.steps else 1
    per_step = part.per_step
    return per_step is not None and per_step.max_ns <= ONCE_FRAC * per_step.mean_ns * steps


def _works_every(per_step: PerStep) -> int:
    """Return the interval in steps at which a callback does most of its work."""
    if per_step.median_ns >= RARE * per_step.mean_ns:
        return 1
    return max(1, round(per_step.max_ns / max(1, per_step.mean_ns)))


def _effort(run: RunResults, name: str) -> Effort:
    if name == SCHEDULER:
        return SCHEDULER_EFFORT
    if AVERAGE.search(name):
        return AVERAGE_EFFORT
    if not run.trains and name not in SETTINGS:
        return OUTPUT_EFFORT
    return SETTING_EFFORT if name in SETTINGS else EFFORT


def _advice(run: RunResults, name: str, every: int) -> str:
    if name == SCHEDULER:
        return SCHEDULED
    if AVERAGE.search(name):
        return AVERAGED.format(name=name)
    if not run.trains and name not in SETTINGS:
        return OUTSIDE_TRAINING.format(name=name)
    return OFTEN.format(name=name, every=every) + ("" if name in SETTINGS else UNLESS)


def _change(run: RunResults, part: Part, every: int, works_every: int) -> str | None:
    if part.name in SETTINGS:
        return SETTINGS[part.name]
    if trains(part.name) or not run.trains:
        return None
    trainer = "self.trainer" if part.phase is Phase.OTHER else "trainer"
    # The callback's own condition (batch_idx % 20 == 0) and this one might never hold together.
    place = "instead of its condition" if works_every > 1 else "around what takes the time"
    condition = f"if {trainer}.global_step % {every} == 0:"
    return f"# in {part.name}, {place}\n{condition}\n    ...  # as before"
