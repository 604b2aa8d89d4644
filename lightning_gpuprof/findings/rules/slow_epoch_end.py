"""A callback or hook takes long between epochs.

## Symptom
Training stands still between the last step of an epoch and the first step of the next.

## Why
No step shows this time. If epochs are short, a plot or a table of all predictions may take as long
as an epoch.

## Fix
Do the work in one epoch of a few, or on fewer samples. Work that changes weights, learning rates or
data must stay: make it cheaper.

```python
def on_train_epoch_end(self, trainer, module):  # before
    self.plot()

    if (trainer.current_epoch + 1) % 5 == 0:  # after
        self.plot()
```

## How it is measured
`between_epochs_ns` is the host time in one callback or hook between epochs, per step. Working a
fifth as often leaves a fifth of it.

## Limits
Work that was done only once is not reported. Validation, checkpoints and loggers have findings of
their own.
"""

from lightning_gpuprof.analysis.run.epochs import BetweenEpochs
from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.settings import settings_of
from lightning_gpuprof.analysis.savings.serial import without_serial_work
from lightning_gpuprof.findings.epoch_cost import epoch_finding
from lightning_gpuprof.findings.grade import FEWER, ONCE_FRAC
from lightning_gpuprof.findings.hooks import trains
from lightning_gpuprof.findings.model import Effort, Finding, Horizon, Place
from lightning_gpuprof.findings.rule import rule
from lightning_gpuprof.records.phases import OWN_CALLBACKS, Phase

OF_TWO_FRAC = 0.75
"""The same for work that was done twice: it counts as repeated unless the longer time is more than
three times the shorter."""
MOST = 3
LEARNS = "{name} decides what is learned and must run in every epoch: make it cheaper."
SELDOM = (
    f"Do {{name}}'s work in one epoch of {FEWER}, or on fewer samples. If it changes weights or "
    "data, make it cheaper instead."
)
EFFORT = Effort(Horizon.QUICK, "a condition in the callback", "its output comes less often")


@rule(id="slow-epoch-end", needs=("training", "steps"), effort=EFFORT)
def judge(run: RunResults) -> tuple[Finding, ...]:
    """Return findings about the callbacks and hooks that take longest between epochs."""
    others = (*OWN_CALLBACKS, settings_of(run.start).profiler)
    repeated = (work for work in run.epochs.between if _is_repeated(work))
    findings = [_finding(run, work) for work in repeated if work.name not in others]
    return tuple(finding for finding in findings if finding is not None)[:MOST]


def _is_repeated(work: BetweenEpochs) -> bool:
    """Return whether no single epoch has most of the work's time."""
    once_frac = OF_TWO_FRAC if work.epochs == 2 else ONCE_FRAC
    return work.longest_ns <= once_frac * work.total_ns


def _finding(run: RunResults, work: BetweenEpochs) -> Finding | None:
    learns, saved_frac = trains(work.name), 1 - 1 / FEWER
    lost = without_serial_work(
        run, work.phase, work.total_ns, gone_frac=(saved_frac, saved_frac), amid_epochs=False
    )
    # On a GPU, the host often waits here for what the last steps of the epoch have queued.
    least_ns, whole_ns = 0 if run.on_gpu else lost.low_ns, max(1, work.total_ns)
    owner = "self" if work.phase is Phase.OTHER else "trainer"
    seldom = f"if ({owner}.current_epoch + 1) % {FEWER} == 0:\n    ...  # as before"
    return epoch_finding(
        run,
        work.total_ns,
        work.epochs,
        name="between_epochs",
        title=f"{work.name} takes {{each}} between epochs",
        advice=(LEARNS if learns else SELDOM).format(name=work.name),
        place=Place(phase=work.phase.value, name=work.name),
        gone_frac=(least_ns / whole_ns, lost.high_ns / whole_ns),
        confidence=0.5 if run.on_gpu else 0.9,
        error_frac=work.error_frac,
        change=None if learns else f"# in {work.name}, around what takes the time\n{seldom}",
    )
