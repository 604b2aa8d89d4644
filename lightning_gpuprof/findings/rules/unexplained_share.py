"""A share of the run that is no work on batches, and that no other finding explains.

## Symptom
The run takes noticeably longer than its steps: a hook makes the data again for each epoch, a
profiler was left on, or something runs between epochs.

## Why
All wall time of a run belongs to work on batches or to something with a name. Where a named share
is large, training stands still for it.

## Fix
```python
def train_dataloader(self):  # before: read and parsed again for each epoch
    return DataLoader(parse(self.path), batch_size=256)

def setup(self, stage):  # after: once
    self.rows = parse(self.path)

def train_dataloader(self):
    return DataLoader(self.rows, batch_size=256)
```

```python
Trainer(profiler="simple")  # before
Trainer()  # after
```

```python
self.save_hyperparameters()  # before: the logger writes the samples out as text
self.save_hyperparameters(ignore=["samples"])  # after
```

## How it is measured
`share_ns` is the time per step of a hook, callback, logger, profiler or rest of a phase, on the
host clock; `each_ns` is that of a single time, and `run_frac` the share of the wall time. The
Trainer's own profiler is measured where it begins and ends the record of an action.

## Limits
Work that is done only once is reported from 1 s (of a logger, 0.25 s) and 20% of the run on, since
a longer run does it no more often. What runs before `Trainer.fit`, such as imports, is not seen.
What every training loop has is reported only from 20% of the run on. A profiler also slows down
what it records. If Python calls it at every call of a function, as cProfile, the upper end of the
saving allows for that; otherwise more than the reported time may be saved.
"""

from lightning_gpuprof.analysis.run.account import Account, Kind, Rhythm, Share
from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.settings import settings_of
from lightning_gpuprof.analysis.savings.hidden import AROUND_FRAC, exposed
from lightning_gpuprof.findings.grade import CRITICAL_FRAC, FEWER
from lightning_gpuprof.findings.model import Effort, Finding, Horizon, Place, Range, Severity, When
from lightning_gpuprof.findings.rule import measured, rule
from lightning_gpuprof.findings.shares import PER, each_time, lengthening, long_once, share_name
from lightning_gpuprof.units import percent

MIN_FRAC = 0.03
"""Shares of less of the run are left alone."""
USUAL = {Kind.DATA_WAIT, Kind.LOGGER, Kind.LOOP, Kind.GARBAGE_COLLECTION}
USUAL_FRAC = CRITICAL_FRAC
"""Every loop fetches batches, logs, collects garbage and validates, and other rules judge most of
that. It is reported here only if it takes this share of the run, and no change is proposed."""
ADVICE = {
    Kind.LOADER_HOOK: (
        "{name} makes its data again, {count} times. Read and parse it once, in setup or "
        "__init__, and only return a loader over it here. Or call it less often "
        "(reload_dataloaders_every_n_epochs)."
    ),
    Kind.HOOK: "Is the work of {name} needed {per}? Do it less often, on less data, or cheaper.",
    Kind.CALLBACK: "Is the work of {name} needed {per}? Do it less often, or leave {name} out.",
    Kind.LOGGER: "{name} holds training up {per}: log fewer values, or less often.",
    Kind.PROFILER: (
        "The Trainer has a profiler of its own, {name}, which records each action. Leave it out "
        "unless you read its report."
    ),
    Kind.VALIDATION: "Is it needed this often? Validate less often (check_val_every_n_epoch).",
    Kind.CHECKPOINT: "Is it needed this often? Save less often (every_n_epochs).",
    Kind.GARBAGE_COLLECTION: (
        "Python's collector looks at all objects {count} times: keep fewer of them, or call "
        "gc.freeze() before training."
    ),
    Kind.DATA_WAIT: "Make batches with less work, larger ones, or in workers (num_workers).",
    Kind.LOOP: "Steps are short for what each of them costs: train on larger batches.",
}
"""What to do, by whose time it is."""
HOOKED = " It is called at every call of a Python function, too, which slows the whole step down."
HOOKED_FRAC = 0.5
"""cProfile makes calls of Python functions two to three times as slow. In a step of 2 ms that
was a third of the step by the thread's CPU time, so at most this share of a step is its work."""
EPOCH_ADVICE = {
    Kind.DATA_WAIT: (
        "Epochs are short for what starting one costs: make them longer, keep the workers "
        "(persistent_workers=True), and do less before the first sample."
    ),
    Kind.LOOP: "Epochs are short for what each of them costs: make them longer.",
}
LONGER = " A longer run does it no more often."
ONCE_ADVICE = {
    Kind.LOGGER: (
        "{name} writes what it is given as training starts (log_hyperparams, log_graph, save), "
        "most likely large hyperparameters, which each checkpoint holds too. Leave data out of "
        "them (save_hyperparameters(ignore=[...])), or do not pass it to the module."
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
ONCE_CHANGES = {
    Kind.LOGGER: "self.save_hyperparameters(ignore=[...])  # the arguments that hold data"
}
CHANGES = {
    Kind.PROFILER: "Trainer(...)  # without profiler=",
    Kind.LOADER_HOOK: (
        "def setup(self, stage):\n"
        "    self.data = ...  # what {name} reads and parses\n\n"
        "def {name}(self):\n"
        "    return DataLoader(self.data, ...)"
    ),
}
SAVED_FRAC = {
    Kind.LOADER_HOOK: (1 - 1 / FEWER, 1 + AROUND_FRAC),
    Kind.PROFILER: (1.0, 1.0),
    Kind.LOGGER: ((1 - 1 / FEWER) * (1 - AROUND_FRAC), (1 - 1 / FEWER) * (1 + AROUND_FRAC)),
    Kind.HOOK: (0.0, 1 - 1 / FEWER),
    Kind.CALLBACK: (0.0, 1 - 1 / FEWER),
}
"""The least and the most that the change saves; other shares may have to stay as they are."""
ONCE_SAVED_FRAC = {Kind.LOGGER: (1 - AROUND_FRAC, 1.0)}
"""The same of work that is done once. A logger that gets no data writes a few lines."""
WHEN = {
    Rhythm.STEP: When.IN_STEPS,
    Rhythm.EPOCH: When.BETWEEN,
    Rhythm.VALIDATION: When.ALSO_BETWEEN,
    Rhythm.CHECKPOINT: When.ALSO_BETWEEN,
    Rhythm.ONCE: When.BETWEEN,
}
EFFORT = Effort(Horizon.QUICK, "the hook or setting that is named", "its output comes less often")
EFFORTS = {
    Kind.PROFILER: Effort(
        Horizon.QUICK, "one argument of the Trainer", "its own report is missing"
    ),
    Kind.LOADER_HOOK: Effort(Horizon.QUICK, "a few lines of the data module", "none"),
}
ONCE_EFFORT = Effort(Horizon.MEDIUM, "what is made before training is stored", "it may be outdated")


@rule(id="unexplained-share", needs=("training", "steps"), effort=EFFORT)
def judge(run: RunResults) -> tuple[Finding, ...]:
    """Return a finding for each share that takes much of the run; `overlap.py` has the rest."""
    account = run.account
    if account is None:
        return ()
    recurring = [
        share
        for share in lengthening(run)
        if share.kind is not Kind.COMPILING  # `recompilation` knows torch's reasons
        and account.frac(share.total_ns) >= (USUAL_FRAC if _is_usual(share) else MIN_FRAC)
    ]
    once = [share for share in long_once(run) if share.kind in ONCE_ADVICE]
    return tuple(_finding(run, account, share) for share in (*recurring, *once))


def _is_usual(share: Share) -> bool:
    """Return whether every training spends time on such a share."""
    if share.rhythm in (Rhythm.VALIDATION, Rhythm.CHECKPOINT):
        return share.name is None
    return share.rhythm is Rhythm.STEP and share.kind in USUAL


def _finding(run: RunResults, account: Account, share: Share) -> Finding:
    ran, name = measured(run.steps).ran, share_name(share)
    cost_ns = share.total_ns // ran
    in_steps = share.rhythm is Rhythm.STEP
    once = share.rhythm is Rhythm.ONCE
    least, most = (ONCE_SAVED_FRAC if once else SAVED_FRAC).get(share.kind, (0.0, 1.0))
    if run.on_gpu:
        least = 0.0  # the device may be working meanwhile
    low_ns = high_ns = cost_ns
    if in_steps:
        lost = exposed(run, share.phase, cost_ns)
        low_ns, high_ns = min(cost_ns, lost.low_ns), min(cost_ns, lost.high_ns)
    advice = ADVICE[share.kind]
    if share.rhythm is Rhythm.EPOCH:
        advice = EPOCH_ADVICE.get(share.kind, advice)
    if once:
        advice = ONCE_ADVICE[share.kind] + LONGER
    change = (ONCE_CHANGES if once else CHANGES).get(share.kind)
    sure = least > 0
    most_ns, error_ns = round(most * high_ns), round(cost_ns * share.error_frac)
    if share.kind is Kind.PROFILER and in_steps and settings_of(run.start).call_hooks:
        hooked_ns = round(HOOKED_FRAC * max(0, measured(run.step_ns) - cost_ns))
        advice, most_ns, error_ns = advice + HOOKED, most_ns + hooked_ns, error_ns + hooked_ns
    return Finding(
        severity=Severity.INFO if _is_usual(share) else Severity.BY_SAVING,
        title=f"{name} takes {each_time(share, ran)} "
        f"({percent(account.frac(share.total_ns))} of the run)",
        advice=advice.format(name=name, count=share.count, per=PER[share.rhythm]),
        evidence={
            "share_ns": cost_ns,
            "each_ns": share.each_ns,
            "times_count": share.count,
            "run_frac": account.frac(share.total_ns),
        },
        saving_ns=Range(round(least * low_ns), most_ns),
        cause_ns=Range(cost_ns, cost_ns + error_ns),
        confidence=0.9 if sure else 0.5,
        places=(Place(phase=share.phase.value, name=share.name),),
        when=WHEN[share.rhythm],
        change=change and change.format(name=name),
        effort=ONCE_EFFORT if once else EFFORTS.get(share.kind),
    )
