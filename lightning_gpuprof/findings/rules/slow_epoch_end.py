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
from lightning_gpuprof.analysis.savings.hidden import AROUND_FRAC
from lightning_gpuprof.findings.epoch_cost import epoch_finding
from lightning_gpuprof.findings.grade import FEWER, ONCE_FRAC
from lightning_gpuprof.findings.hooks import trains
from lightning_gpuprof.findings.model import Effort, Finding, Horizon, Place
from lightning_gpuprof.findings.rule import rule
from lightning_gpuprof.records.phases import OWN_CALLBACKS, Phase

OF_TWO_FRAC = 0.75
"""Of two times the longer has half or more: it counts as single from three times the other."""
MOST = 3
LEARNS = "It decides what is learned and must run in every epoch: make it cheaper."
SELDOM = (
    f"Do {{name}}'s work in one epoch of {FEWER}, or on fewer samples. If it changes weights or "
    "data, make it cheaper instead."
)
EFFORT = Effort(Horizon.QUICK, "a condition in the callback", "its output comes less often")


@rule(id="slow-epoch-end", needs=("training", "steps"), effort=EFFORT)
def judge(run: RunResults) -> tuple[Finding, ...]:
    """Return a finding for each of the longest."""
    found = [_finding(run, one) for one in run.epochs.between if _comes_again(one)]
    return tuple(one for one in found if one is not None)[:MOST]


def _comes_again(one: BetweenEpochs) -> bool:
    once_frac = OF_TWO_FRAC if one.epochs == 2 else ONCE_FRAC
    return one.name not in OWN_CALLBACKS and one.longest_ns <= once_frac * one.total_ns


def _finding(run: RunResults, one: BetweenEpochs) -> Finding | None:
    learns, goes = trains(one.name), 1 - 1 / FEWER
    # On a GPU the host often waits there for what the epoch's last steps have queued.
    least = 0 if run.on_gpu else goes * (1 - AROUND_FRAC)
    whose = "self" if one.phase is Phase.OTHER else "trainer"
    seldom = f"if ({whose}.current_epoch + 1) % {FEWER} == 0:\n    ...  # as before"
    return epoch_finding(
        run,
        one.total_ns,
        one.epochs,
        name="between_epochs",
        title=f"{one.name} takes {{each}} between epochs",
        advice=LEARNS if learns else SELDOM.format(name=one.name),
        place=Place(phase=one.phase.value, name=one.name),
        gone_frac=(least, goes * (1 + AROUND_FRAC)),
        confidence=0.5 if run.on_gpu else 0.9,
        error_frac=one.error_frac,
        change=None if learns else f"# in {one.name}, around what takes the time\n{seldom}",
    )
