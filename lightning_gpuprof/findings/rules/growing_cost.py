"""Something takes longer each time, and the training around it does not.

## Symptom
Validations, checkpoints, a callback, a hook or a wait for data take longer and longer.

## Why
Each time works on everything kept so far: predictions that are scored, a history that is plotted
or written. The run's total cost grows with the square of its length.

## Fix
```python
self.outputs.append(out)  # before: scored again in each validation
self.outputs.clear()  # after: at the end of on_validation_epoch_end
```

Or keep running sums, write only new rows, bound lists.

## How it is measured
`first_ns`, `last_ns`: medians of the first and last three times; `grown_ns`: what all took above
the first, per step. The rise must stand out of the pace of the steps beside it.

## Limits
Where memory grows too, see `memory-growth`.
"""

from lightning_gpuprof.analysis.run.rising import Rising
from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.savings.hidden import around, exposed
from lightning_gpuprof.findings.grade import grade
from lightning_gpuprof.findings.model import Effort, Finding, Horizon, Range, When, Where
from lightning_gpuprof.findings.places import keeping
from lightning_gpuprof.findings.rule import measured, rule
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.units import duration

MIN_FRAC = 0.01
MOST_OF = 0.5
"""A part with this share of its phase's growth is what grows."""
MOST = 3
CLEARED = "Clear what was used, or keep running sums (as torchmetrics does) instead of every value."
BOUNDED = "Keep running sums, bound the list or table, and write or draw only new rows."
EFFORT = Effort(
    Horizon.QUICK,
    "clear what was used, or sum it up",
    "values that lie further back are no longer there",
)


@rule(id="growing-cost", needs=("steps",), effort=EFFORT)
def judge(run: RunResults) -> tuple[Finding, ...]:
    """Return a finding for what grows most in each phase: the part that is most of it, or all."""
    step_ns, chosen = measured(run.step_ns), dict[Phase, Rising]()
    for one in run.rising:  # that of the greatest cost first
        first = chosen.setdefault(one.phase, one)
        if first.name is None and one.name and one.cost_ns >= MOST_OF * first.cost_ns:
            chosen[one.phase] = one
    found = [one for one in chosen.values() if one.cost_ns >= MIN_FRAC * step_ns]
    return tuple(_finding(run, step_ns, one) for one in found[:MOST])


def _finding(run: RunResults, step_ns: int, one: Rising) -> Finding:
    now_ns = round((one.last_ns - one.first_ns) * one.times / max(1, one.steps))
    low, high = around(one.cost_ns)
    high = max(high, now_ns)
    if run.on_gpu and one.phase not in (Phase.VALIDATION, Phase.CHECKPOINT):
        low = exposed(run, one.phase, one.cost_ns).low_ns
        high = exposed(run, one.phase, high).high_ns
    saving = Range(low=low, high=high)
    often = f"after {one.times} times"
    if one.times == one.steps:
        often = f"in {one.steps:,} steps"
    line = keeping(run, [one.phase])
    kept = line is not None or run.memory_growth is not None
    advice, change = _advice(one)
    return Finding(
        severity=grade(saving, step_ns),
        title=f"{one.name or one.phase.value} grew from {duration(one.first_ns)} to "
        f"{duration(one.last_ns)} {often}",
        advice=advice,
        evidence={
            "first_ns": one.first_ns,
            "last_ns": one.last_ns,
            "more_ns": one.more_ns,
            "times_count": one.times,
            "grown_ns": one.cost_ns,
            "step_ns": step_ns,
        },
        saving_ns=saving,
        confidence=0.9 if kept else 0.5,
        where=(
            *([Where.at(line, phase=line.phase)] if line else []),
            Where(phase=one.phase.value, name=one.name),
        ),
        change=change,
        when=When.ALSO_BETWEEN,
        explains=(
            "slow-callback",
            "slow-epoch-end",
            "slow-logging",
            "slow-checkpoint",
            "data-wait",
        ),
    )


def _advice(one: Rising) -> tuple[str, str | None]:
    """Return what to do about it, and the code."""
    if one.phase is Phase.VALIDATION:
        return CLEARED, "self.outputs.clear()  # at the end of on_validation_epoch_end"
    if one.phase in (Phase.CHECKPOINT, Phase.DATA_WAIT):
        return BOUNDED, None
    return BOUNDED, "self.items = collections.deque(maxlen=1000)  # instead of a list"
