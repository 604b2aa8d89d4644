"""A data module makes its data before a stage, and again before the next one.

## Symptom
`trainer.fit` takes long to begin, and so do `validate`, `test` and `predict` after it.

## Why
The Trainer calls `prepare_data` and `setup` of the data module for each stage. What they read,
download or tokenize without looking whether that was done before is done once per stage.

## Fix
```python
def setup(self, stage):  # before
    self.rows = tokenize(self.texts)

def setup(self, stage):  # after
    if self.rows is None:
        self.rows = tokenize(self.texts)
```

Keep on disk what does not change from run to run: `prepare_data` makes the file, `setup` reads it.

## How it is measured
The Trainer calls these hooks before it calls any callback, so they are not timed by themselves.
`before_ns` is the time before this stage, per step: since the stage before it, or for the first
stage since `GpuProfCallback` was made. `all_stages_ns` is the total of all stages of the process so
far, and no time per step.

## Limits
What the program itself does in that time is included, so at most this is saved, and before the
first stage possibly nothing. It is reported from 1 s and 20% of the stage on.
"""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.findings.grade import CRITICAL_FRAC
from lightning_gpuprof.findings.model import Effort, Finding, Horizon, Place, Range, Severity, When
from lightning_gpuprof.findings.rule import measured, rule
from lightning_gpuprof.findings.shares import LEAST_ONCE_NS
from lightning_gpuprof.units import duration

ADVICE = (
    "{hooks} of {owner} ran in this time{before}. The Trainer calls them for each stage: leave at "
    "once if the data is there already, make only what the stage needs, and keep on disk what no "
    "run changes. The time is that since {since}, with what the program itself did in it."
)
CHANGE = """\
def {hook}(self{stage}):
    if self.data is not None:  # made for an earlier stage
        return"""
LEAST_FRAC = 0.5
"""Of the time between stages, in which programs seldom do anything else for long."""
EFFORT = Effort(Horizon.QUICK, "two lines of the data module", "none")


@rule(id="repeated-setup", needs=("steps", "stage work"), effort=EFFORT)
def judge(run: RunResults) -> Finding | None:
    """Return the finding about what a data module does before a stage."""
    work, steps = measured(run.facts.stage_work), measured(run.steps)
    before_ns, count = work.before_ns[-1], len(work.before_ns)
    whole_ns = before_ns + run.wall.wall_ns
    if before_ns < max(LEAST_ONCE_NS, CRITICAL_FRAC * whole_ns):
        return None
    first = count == 1
    cost_ns = before_ns // steps.ran
    hook = work.hooks[-1]
    names = " and ".join(work.hooks)
    total_ns = sum(work.before_ns)
    before = "" if first else f", as before each of {count} stages, {duration(total_ns)} in all"
    since = "GpuProfCallback was made" if first else "the stage before"
    return Finding(
        severity=Severity.INFO if first else Severity.BY_SAVING,
        title=f"{duration(before_ns)} pass before {run.start.stage} begins, "
        f"with {work.owner}.{hook}",
        advice=ADVICE.format(hooks=names, owner=work.owner, before=before, since=since),
        evidence={"before_ns": cost_ns, "all_stages_ns": total_ns, "stages_count": count},
        saving_ns=Range(0 if first else round(LEAST_FRAC * cost_ns), cost_ns),
        cause_ns=Range(cost_ns, cost_ns),
        confidence=0.5 if first else 0.8,
        places=(Place(name=f"{work.owner}.{hook}"),),
        change=CHANGE.format(hook=hook, stage=", stage" if hook == "setup" else ""),
        when=When.BETWEEN,
    )
