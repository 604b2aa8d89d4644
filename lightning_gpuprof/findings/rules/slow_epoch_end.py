"""A callback, or a hook of the module, works long between epochs.

## What it measures
`between_epochs_ns`: the time in one callback's hooks, or in one hook of the module, from the last
step of an epoch to the first of the next, per recorded step, on the host clock.

## Why it matters
No step shows it: training stands still after each epoch. Where epochs are short, a vote of nearest
neighbours, a plot or a table of all predictions may take as long as the epoch itself.

## What to do
Do the work in one epoch of a few, or on fewer samples. What changes weights, learning rates or the
data must stay in every epoch: make it cheaper instead.

## Thresholds
`MIN_FRAC` (`findings/epoch_cost.py`): below one percent of the steps' time nobody would change a
program. The change proposed is a fifth as often (`FEWER`, `findings/grade.py`), and leaves that of
the cost. Where one time has most of all that it took (`ONCE_FRAC`), nothing is said: what was done
once is not known to come again. Of two times the longer always has half or more: there it is what
took three times as long as the other (`OF_TWO_FRAC`). On a GPU the least is nothing: often the host
first waits there for what the epoch's last steps have queued, and else would wait elsewhere.
Validation, checkpoints and loggers have findings of their own. Severity: the common scale
(`findings/grade.py`).
"""

from lightning_gpuprof.analysis.run.epochs import BetweenEpochs
from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.savings.hidden import AROUND_FRAC
from lightning_gpuprof.findings.epoch_cost import epoch_finding
from lightning_gpuprof.findings.grade import FEWER
from lightning_gpuprof.findings.model import Abstained, Effort, Finding, Horizon, Where
from lightning_gpuprof.findings.rules.slow_callback import ONCE_FRAC, OWN, trains
from lightning_gpuprof.records.phases import Phase

ID = "slow-epoch-end"
EFFORT = Effort(Horizon.QUICK, "a condition in the callback", "its output comes less often")
OF_TWO_FRAC = 0.75
MOST = 3
"""As many at most, the longest."""


def evaluate(run: RunResults) -> tuple[Finding, ...] | Abstained | None:
    """Return a finding for each of the longest."""
    if run.step_ns is None:
        return Abstained(ID, "no step was recorded")
    found = [_finding(run, one) for one in run.between_epochs if _comes_again(one)]
    return tuple(one for one in found if one is not None)[:MOST]


def _comes_again(one: BetweenEpochs) -> bool:
    once_frac = OF_TWO_FRAC if one.epochs == 2 else ONCE_FRAC
    return one.name not in OWN and one.longest_ns <= once_frac * one.total_ns


def _finding(run: RunResults, one: BetweenEpochs) -> Finding | None:
    learns, goes = trains(one.name), 1 - 1 / FEWER
    return epoch_finding(
        run,
        one.total_ns,
        one.epochs,
        rule=ID,
        name="between_epochs",
        title=f"{one.name} takes {{each}} between epochs",
        advice="It decides what is learned and must stay in every epoch: make it cheaper."
        if learns
        else f"Do {one.name}'s work in one epoch of {FEWER}, or on fewer samples. Where it changes "
        "weights or the data, that is another training: make it cheaper instead.",
        where=Where(phase=one.phase.value, name=one.name),
        gone_frac=(0 if run.on_gpu else goes * (1 - AROUND_FRAC), goes * (1 + AROUND_FRAC)),
        confidence=0.5 if run.on_gpu else 0.9,
        change=None if learns else _change(one),
    )


def _change(one: BetweenEpochs) -> str:
    if one.phase is Phase.OTHER:
        return (
            f"def {one.name}(self, *args):\n"
            f"    if (self.current_epoch + 1) % {FEWER} == 0:\n"
            "        ...  # as before"
        )
    return (
        f"# in {one.name}, first in the hook that takes the time\n"
        f"if (trainer.current_epoch + 1) % {FEWER}:\n"
        "    return"
    )
