"""Data workers are started again for each epoch or validation, or in the middle of an epoch.

## Symptom
The first step of each epoch or validation waits for workers to start. With several loaders, steps
in the middle of an epoch may.

## Why
Without persistent workers, each epoch ends its workers and the next one starts new ones. A new
worker imports torch, copies the dataset, opens files and fills its queue.

## Fix
```python
DataLoader(data, num_workers=4)  # before
DataLoader(data, num_workers=4, persistent_workers=True)  # after
```

Return the same loader every time.

## How it is measured
`startup_ns` is the time per step. It is how much longer the first step of an epoch waits than
others, and the waits between epochs, both without the first epoch. In the middle of an epoch it is
the same difference, and in validation the time of creating iterators and of first batches.

## Limits
Persistent workers must still make a first batch, for at most `num_workers` steps; the lower end of
the saving leaves that out. The upper end includes that the first step of an epoch computes longer,
on memory that it shares with new workers.
"""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.savings.hidden import around, exposed
from lightning_gpuprof.analysis.savings.loader_plan import rows_in_memory
from lightning_gpuprof.findings.epoch_cost import of_run
from lightning_gpuprof.findings.model import Effort, Finding, Horizon, Place, Range, When
from lightning_gpuprof.findings.rule import evidence_of, measured, rule
from lightning_gpuprof.records.phases import WORKER_STARTUP, Phase
from lightning_gpuprof.units import duration, percent

ROWS = "Samples are rows of tensors in memory: make batches of them without workers."
KEEP = "Keep the workers from one epoch to the next."
AMID = (
    "A loader that is shorter than another one ends before the epoch does and starts its workers "
    "again: keep them, or make its batches in the training process (num_workers=0)."
)
FEW_BATCHES = (
    "Each loader makes only {batches} batches: make them in the training process, or keep the "
    "workers (persistent_workers=True)."
)
KEEP_VALIDATION = "Keep the workers of the validation's loader from one validation to the next."
RELOAD = "Trainer(..., reload_dataloaders_every_n_epochs=0)  # keeps the loader, and its workers"
ANEW = (
    " train_dataloader makes a new loader for each epoch: return the same one, with "
    "persistent_workers=True, and change the data inside the dataset."
)
FEW = 2
"""So many batches per worker are made as fast without workers."""
EFFORT = Effort(Horizon.QUICK, "one argument of the DataLoader", "workers keep their memory")
WITHOUT_EFFORT = Effort(Horizon.QUICK, "one argument of the DataLoader", "none")
RELOAD_EFFORT = Effort(Horizon.MEDIUM, "how the dataset changes between epochs", "none")


@rule(id="worker-startup", needs=("training", "steps"), effort=EFFORT)
def judge(run: RunResults) -> tuple[Finding, ...]:
    """Return a finding for epochs, steps and validations that wait for workers to start."""
    findings = _of_epochs(run), _amid_epochs(run), _of_validations(run)
    return tuple(finding for finding in findings if finding is not None)


def _of_epochs(run: RunResults) -> Finding | None:
    """Return the finding about workers that start with each epoch."""
    starts, loader, steps = run.epochs.starts, run.start.loader, run.steps
    step_ns, workers = measured(run.step_ns), loader.num_workers if loader else None
    if starts is None or steps is None or workers == 0 or starts.count < 2:
        return None
    persistent, again = bool(loader and loader.persistent_workers), starts.count - 1
    waited_ns = starts.again_ns // again
    first_batch_ns = min(waited_ns, (workers or 1) * step_ns)
    # Persistent workers do not start again: the rest of the wait is making the first batch.
    stays = persistent and (not starts.remade_ns or waited_ns == first_batch_ns)
    if stays or not waited_ns:
        return None
    # Persistent workers, too, must fill their queues as an epoch begins.
    sure_ns = waited_ns - first_batch_ns
    cost_ns = starts.again_ns // steps.ran
    most_ns = cost_ns + starts.slower_ns // steps.ran
    saving = Range(sure_ns * again // steps.ran, around(most_ns)[1])
    setting: str | None = f"num_workers={workers or 2}"
    change: str | None = f"DataLoader(..., {setting}, persistent_workers=True)"
    advice, effort = KEEP, EFFORT
    if _needless(run):
        setting = "num_workers=0"
        advice, change, effort = ROWS, f"DataLoader(..., {setting})", WITHOUT_EFFORT
    elif starts.remade_ns:
        advice, change, setting = KEEP + ANEW, RELOAD if persistent else None, None
        effort = RELOAD_EFFORT
    return Finding(
        title=f"Each epoch waits {duration(waited_ns)} for workers to start "
        f"({of_run(run, starts.again_ns)})",
        advice=advice,
        evidence=evidence_of(
            startup_ns=cost_ns,
            startup_per_epoch_ns=waited_ns,
            epochs_count=starts.count,
            num_workers_count=workers,
            process_start_ns=run.loader.workers.start_ns if run.loader.workers else None,
            worker_init_ns=run.loader.workers.init_ns if run.loader.workers else None,
        ),
        saving_ns=saving,
        cause_ns=Range(cost_ns, round(most_ns * (1 + starts.error_frac))),
        confidence=0.9,
        places=(Place(phase=Phase.DATA_WAIT.value),),
        when=When.BETWEEN,
        change=change,
        setting=setting,
        effort=effort,
    )


def _needless(run: RunResults) -> bool:
    """Return whether the samples are rows in memory, which need no workers."""
    lost = exposed(run, Phase.DATA_WAIT, run.wait_ns or 0)
    return run.wait_ns is not None and rows_in_memory(run, lost) is not None


def _amid_epochs(run: RunResults) -> Finding | None:
    """Return the finding about a loader that starts its workers again in the middle of an epoch."""
    amid, step_ns = run.epochs.amid_starts, measured(run.step_ns)
    if amid is None or not amid.per_step_ns:
        return None
    cost_ns, every = amid.per_step_ns, amid.every_steps
    saving = Range(*around(cost_ns, step_ns))
    return Finding(
        title=f"Worker processes start within epochs, every {every} steps: "
        f"{duration(cost_ns)} of each step ({percent(cost_ns / step_ns)})",
        advice=AMID,
        evidence={"startup_ns": cost_ns, "steps_between_count": every},
        saving_ns=saving,
        cause_ns=Range(cost_ns, cost_ns),
        confidence=0.9,
        places=(Place(phase=Phase.DATA_WAIT.value, name=WORKER_STARTUP),),
        change="DataLoader(..., persistent_workers=True)  # the shorter loader's",
        setting="num_workers",
    )


def _of_validations(run: RunResults) -> Finding | None:
    """Return the finding about validations that start workers of their own."""
    validations, step_ns = run.epochs.validations, measured(run.step_ns)
    if (
        validations is None
        or validations.loader is None
        or run.every is None
        or not validations.starts_workers
    ):
        return None
    low_ns, each_ns = validations.start_again_ns
    cost_ns = each_ns * validations.count // run.every.steps
    if not cost_ns:
        return None
    workers = validations.loader.num_workers or 0
    # The first validation always starts its workers, unless a validation ran before training.
    low_ns = low_ns * (validations.count - 1) // run.every.steps
    saving = Range(low=around(low_ns)[0], high=around(cost_ns, step_ns)[1])
    advice, change = KEEP_VALIDATION, f"num_workers={workers}, persistent_workers=True"
    effort = EFFORT
    loaders = validations.loader.loaders or 1
    batches, started = (validations.loader.length or 0) / loaders, workers * loaders
    if 0 < batches <= FEW * workers:
        advice, change = FEW_BATCHES.format(batches=round(batches)), "num_workers=0"
        effort = WITHOUT_EFFORT
    return Finding(
        title=f"Starting {started} {'worker' if started == 1 else 'workers'} costs each validation "
        f"{duration(each_ns)} ({of_run(run, each_ns * validations.count)})",
        advice=advice,
        evidence={
            "startup_ns": cost_ns,
            "startup_per_validation_ns": each_ns,
            "per_validation_ns": validations.mean_ns,
            "validations_count": validations.count,
            "num_workers_count": workers,
        },
        saving_ns=saving,
        cause_ns=Range(cost_ns, cost_ns),
        confidence=0.9,
        places=(Place(phase=Phase.VALIDATION.value, name="val_dataloader"),),
        when=When.ALSO_BETWEEN,
        change=f"DataLoader(..., {change})  # validation's",
        effort=effort,
    )
