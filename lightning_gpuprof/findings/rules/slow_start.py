"""Work that is done only once takes much of the run.

## Symptom
The first step comes late: `setup`, a logger or a callback works for seconds before it.

## Why
Data is read and converted, or a logger writes out what it is given, before training starts. A long
run hides that; short runs, sweeps and restarts pay for it each time.

## Fix
```python
def setup(self, stage):  # before
    self.rows = parse(self.path)

def prepare_data(self):  # after: parsed for the first run, read by the others
    if not self.cache.exists():
        torch.save(parse(self.path), self.cache)

def setup(self, stage):
    self.rows = torch.load(self.cache, mmap=True)
```

```python
self.save_hyperparameters()  # before: the logger writes the samples out as text
self.save_hyperparameters(ignore=["samples"])  # after
```

## How it is measured
`once_ns` is the time of a hook, callback or logger by name, on the host clock, and `run_frac` its
share of the wall time. It is divided by all steps for the saving, as everything that a finding
saves is.

## Limits
A longer run does this work no more often: of a run of days it may be nothing. Work of less than a
second, or of less than 20% of the run, is left alone. What runs before `Trainer.fit`, such as
imports, is not seen.
"""

from lightning_gpuprof.analysis.run.account import Account, Kind, Rhythm, Share
from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.findings.grade import CRITICAL_FRAC
from lightning_gpuprof.findings.model import Effort, Finding, Horizon, Place, Range, When
from lightning_gpuprof.findings.rule import measured, rule
from lightning_gpuprof.findings.shares import share_name
from lightning_gpuprof.units import duration, percent

LEAST_NS, LEAST_FRAC = 1_000_000_000, CRITICAL_FRAC
"""Work that takes less, or less of the run, is left alone."""
LONGER = " A longer run does it no more often."
ADVICE = {
    Kind.LOGGER: (
        "{name} writes what it is given as training starts: hyperparameters, the graph. Leave "
        "large arguments out of the hyperparameters (save_hyperparameters(ignore=[...]))."
    ),
    Kind.LOADER_HOOK: (
        "Store what {name} reads and parses in a form that loads fast, once for all runs."
    ),
    Kind.CALLBACK: (
        "Is the work of {name} needed before training? Do it on less data, or keep its result for "
        "the next run."
    ),
    Kind.HOOK: (
        "Store what {name} makes in a form that loads fast (prepare_data runs before it), or make "
        "only what the first steps need."
    ),
}
"""What to do, by whose time it is."""
EFFORT = Effort(Horizon.QUICK, "the hook, callback or logger that is named", "none")


@rule(id="slow-start", needs=("training", "steps"), effort=EFFORT)
def judge(run: RunResults) -> tuple[Finding, ...]:
    """Return a finding for each named share that is done once and takes much of the run."""
    account = run.account
    if account is None:
        return ()
    return tuple(
        _finding(run, account, share)
        for share in account.shares
        if share.rhythm is Rhythm.ONCE
        and share.name is not None
        and share.kind in ADVICE
        and share.total_ns >= max(LEAST_NS, LEAST_FRAC * account.wall_ns)
    )


def _finding(run: RunResults, account: Account, share: Share) -> Finding:
    name, cost_ns = share_name(share), share.total_ns // measured(run.steps).ran
    frac = account.frac(share.total_ns)
    return Finding(
        title=f"{name} takes {duration(share.total_ns)} once ({percent(frac)} of the run)",
        advice=ADVICE[share.kind].format(name=name) + LONGER,
        evidence={"once_ns": share.total_ns, "run_frac": frac},
        saving_ns=Range(0, cost_ns),
        cause_ns=Range(cost_ns, cost_ns),
        confidence=0.9,
        places=(Place(phase=share.phase.value, name=share.name),),
        when=When.BETWEEN,
    )
