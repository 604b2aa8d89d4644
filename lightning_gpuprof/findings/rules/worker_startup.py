"""Every epoch, or every validation, begins with a long wait: data workers start again.

## Symptom
The first step of each epoch, or of each validation, waits for workers to start.

## Why
Without persistent workers, Lightning ends all worker processes with an epoch and starts new ones:
each imports torch, copies the dataset, opens its files and fills its queue.

## Fix
```python
DataLoader(data, num_workers=4)  # before
DataLoader(data, num_workers=4, persistent_workers=True)  # after
```

Return the same loader from `train_dataloader` each time.

## How it is measured
`startup_ns` per step: what first steps of epochs wait above the usual, the waits between epochs,
and what those steps compute above the usual; the first epoch is left out. Of validations, the
making of the iterator and the first batch.

## Limits
A first batch is still made, at most `num_workers` steps long: that is not in the least saving.
"""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.savings.hidden import around, exposed
from lightning_gpuprof.analysis.savings.loader_plan import rows_in_memory
from lightning_gpuprof.findings.grade import grade
from lightning_gpuprof.findings.model import Effort, Finding, Horizon, Range, When, Where
from lightning_gpuprof.findings.rule import measured, rule
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.units import duration, percent

WITHOUT = "DataLoader(..., num_workers=0)"
ROWS = "Samples are rows of tensors in memory: make batches of them without workers."
KEEP = "Keep the workers from one epoch to the next."
KEEP_VALIDATION = "Keep the workers of the validation's loader from one validation to the next."
RELOAD = "Trainer(..., reload_dataloaders_every_n_epochs=0)  # keeps the loader, and its workers"
ANEW = (
    " train_dataloader makes a new loader for each epoch: return the same one, with "
    "persistent_workers=True, and draw anew inside the dataset."
)
EFFORT = Effort(Horizon.QUICK, "one argument of the DataLoader", "workers keep their memory")


@rule(id="worker-startup", needs=("steps",), effort=EFFORT)
def judge(run: RunResults) -> tuple[Finding, ...]:
    """Return a finding where epochs or validations wait for workers to start."""
    return tuple(one for one in (_of_epochs(run), _of_validations(run)) if one is not None)


def _of_epochs(run: RunResults) -> Finding | None:
    starts, loader, steps = run.epoch_starts, run.start.loader, run.steps
    step_ns, workers = measured(run.step_ns), loader.num_workers if loader else None
    if starts is None or steps is None or workers == 0 or starts.count < 2:
        return None
    persistent, again = bool(loader and loader.persistent_workers), starts.count - 1
    waited_ns = starts.again_ns // again
    first_batch_ns = min(waited_ns, (workers or 1) * step_ns)
    # Workers that are kept do not start again: the rest of the wait is making the first batch.
    kept = persistent and (not starts.remade_ns or waited_ns == first_batch_ns)
    if kept or not waited_ns:
        return None
    # Workers that are kept fill their queues beside the first steps all the same.
    sure_ns = waited_ns - first_batch_ns
    low, high = (ns * again // steps.ran for ns in (sure_ns, around(waited_ns)[1]))
    cost_ns, saving = starts.again_ns // steps.ran, Range(low, high)
    change: str | None = f"DataLoader(..., num_workers={workers or 2}, persistent_workers=True)"
    advice = KEEP
    if _needless(run):
        advice, change = ROWS, WITHOUT
    elif starts.remade_ns:
        advice, change = KEEP + ANEW, RELOAD if persistent else None
    known = {
        "startup_ns": cost_ns,
        "startup_per_epoch_ns": waited_ns,
        "epochs_count": starts.count,
        "step_ns": step_ns,
        "num_workers_count": workers,
        "process_start_ns": run.worker_lines.start_ns if run.worker_lines else None,
        "worker_init_ns": run.worker_lines.init_ns if run.worker_lines else None,
    }
    return Finding(
        severity=grade(saving, step_ns),
        title=f"Each epoch waits {duration(waited_ns)} for workers to start "
        f"({percent(cost_ns / step_ns)})",
        advice=advice,
        evidence={name: value for name, value in known.items() if value is not None},
        saving_ns=saving,
        confidence=0.9,
        where=(Where(phase=Phase.DATA_WAIT.value),),
        when=When.BETWEEN,
        change=change,
    )


def _needless(run: RunResults) -> bool:
    """Tell whether the samples are rows in memory, for which no workers are needed."""
    wait = run.per_step(Phase.DATA_WAIT)
    if wait is None or run.epoch_starts is None:
        return False
    wait_ns = max(0, wait.mean_ns - run.epoch_starts.steady_mean_ns)
    return rows_in_memory(run, exposed(run, Phase.DATA_WAIT, wait_ns)) is not None


def _of_validations(run: RunResults) -> Finding | None:
    """Return a finding where each validation starts workers of its own."""
    seen, step_ns = run.validations, measured(run.step_ns)
    if seen is None or seen.loader is None or run.every is None or not seen.starts_workers:
        return None
    low_ns, each_ns = seen.start_again_ns
    cost_ns = each_ns * seen.count // run.every.steps
    if not cost_ns:
        return None
    workers = seen.loader.num_workers or 0
    # The first validation always starts them, unless one ran before training.
    low_ns = low_ns * (seen.count - 1) // run.every.steps
    saving = Range(low=around(low_ns)[0], high=around(cost_ns, step_ns)[1])
    return Finding(
        severity=grade(saving, step_ns),
        title=f"Starting workers costs each validation {duration(each_ns)} "
        f"({percent(cost_ns / step_ns)})",
        advice=KEEP_VALIDATION,
        evidence={
            "startup_ns": cost_ns,
            "startup_per_validation_ns": each_ns,
            "per_validation_ns": seen.each_ns,
            "validations_count": seen.count,
            "step_ns": step_ns,
            "num_workers_count": workers,
        },
        saving_ns=saving,
        confidence=0.9,
        where=(Where(phase=Phase.VALIDATION.value, name="val_dataloader"),),
        when=When.ALSO_BETWEEN,
        change=f"DataLoader(..., num_workers={workers}, persistent_workers=True)  # validation's",
    )
