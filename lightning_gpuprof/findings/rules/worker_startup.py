"""Every epoch, or every validation, begins with a long wait: data workers start again.

## What it measures
`startup_ns`: what the first steps of epochs wait for data above the usual step, the waits for data
between epochs (but for the making of a loader, `rebuilt-loader`), and `slowed_ns`, what those first
steps compute above the usual step, per recorded step; the first epoch, which nothing can spare its
start, is left out. Of validations: what it takes to make their loader's iterator, and to wait for
their first batch.

## Why it matters
Without persistent workers, Lightning's loop ends all worker processes with an epoch, or with a
validation, and starts new ones for the next: each imports torch, copies the dataset, opens its
files and fills its queue. A worker that was forked shares its memory with the training process
until one of them writes: the step after copies every page of weights, gradients and optimizer state
that it updates.

## What to do
Keep the workers (`persistent_workers=True`, for each loader by itself); make epochs longer where
they are a few steps; open files lazily, in `__getitem__`. A loader that is made anew for each epoch
has new workers each time: nothing is kept before that ends (`rebuilt-loader`).

## Thresholds
With persistent workers an epoch still begins with the making of a first batch, at most
`num_workers` steps long, and workers that fill their queues beside its first steps, which may be
what slows these: neither is in the low bound. Processes that end and start take time from the steps
around as well, which no wait shows: a fifth may go with it (the high bound, docs/adr/0031). A
validation's first batch is known to be made within what `num_workers` of its batches take, if it
has twice as many; else only the making of the iterator is sure to go, and of an iterable dataset,
whose first batch is made with it, nothing. Where workers are kept already, and their
loader too, this rule is silent.
Rows of a `TensorDataset` may need no workers at all (`data-wait`), and then the same goes with
them; of a validation it is what its loader is waited for but for the making of its rows
(`SAMPLE_NS` each), told where it is more than kept workers surely save. Where workers were looked
at (`worker_lines`), what passed until the first one ran and what the program's `worker_init_fn`
took are told if they are a fifth (`PART_FRAC`) of an epoch's wait, as `grade.py` calls critical.
Severity: the common scale
(`findings/grade.py`).
"""

from lightning_gpuprof.analysis.run.epochs import Validations
from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.worker_lines import worker_lines
from lightning_gpuprof.analysis.savings.cheaper_batches import SAMPLE_NS
from lightning_gpuprof.analysis.savings.hidden import around, exposed
from lightning_gpuprof.findings.grade import grade
from lightning_gpuprof.findings.handover_cures import without_workers
from lightning_gpuprof.findings.model import Abstained, Effort, Finding, Horizon, Range, When, Where
from lightning_gpuprof.records.lines import WorkerLines
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.units import duration, percent

ID = "worker-startup"
EFFORT = Effort(Horizon.QUICK, "one argument of the DataLoader", "workers keep their memory")

WITHOUT = "DataLoader(..., num_workers=0)"
ROWS = "samples are rows of tensors in memory: make batches of them without workers."
PART_FRAC = 0.2
KEEP = "Keep the workers from one epoch to the next."
RELOAD = "Trainer(..., reload_dataloaders_every_n_epochs=0)  # keeps the loader, and its workers"
ANEW = (
    " train_dataloader makes a new loader, with new workers, for each epoch: return the same one "
    "from it (Trainer(reload_dataloaders_every_n_epochs=0)), with persistent_workers=True, and "
    "draw anew inside of the dataset what must change."
)


def evaluate(run: RunResults) -> tuple[Finding, ...] | Abstained | None:
    """Return a finding where epochs begin with a wait that others do not have, or validations."""
    trains, validates = _of_epochs(run), _of_validations(run)
    if isinstance(trains, Abstained):
        return (validates,) if validates else trains
    return tuple(one for one in (trains, validates) if one is not None) or None


def _of_validations(run: RunResults) -> Finding | None:
    """Return a finding where each validation starts workers of its own."""
    seen, step_ns = run.validations, run.step_ns
    if seen is None or seen.loader is None or run.every is None or not step_ns:
        return None
    if not seen.starts_workers:
        return None
    workers = seen.loader.num_workers or 0
    low_ns, each_ns = seen.start_again_ns
    cost_ns = each_ns * seen.count // run.every.steps
    if not cost_ns:
        return None
    advice = "Keep the workers of the validation's loader from one validation to the next."
    change = f"DataLoader(..., num_workers={workers}, persistent_workers=True)"
    most_ns, without_ns = each_ns, _saved_without(seen)
    if without_ns > low_ns:
        advice, change = f"Its {ROWS}", WITHOUT
        low_ns = most_ns = without_ns
    # Where none was before training, a first start there always is.
    low_ns = low_ns * (seen.count - 1) // run.every.steps
    most_ns = most_ns * seen.count // run.every.steps
    saving = Range(low=around(low_ns)[0], high=around(most_ns, step_ns)[1])
    return Finding(
        id=ID,
        severity=grade(saving, step_ns),
        title=f"Starting its loader's workers costs each validation {duration(each_ns)} of its "
        f"{duration(seen.each_ns)} ({percent(cost_ns / step_ns)} of all steps)",
        advice=advice,
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
        change=f"{change}  # the validation's",
    )


def _saved_without(seen: Validations) -> int:
    """Return what each validation saves if it makes its batches itself; 0 where that is not known.

    Rows of tensors in memory are taken quickly, but one after the other: workers had hidden that.
    """
    loader = seen.loader
    if loader is None or not loader.in_memory or not loader.batch_size or not loader.length:
        return 0
    fetched_ns = seen.start_ns + seen.first_batch_ns + seen.next_batches_ns
    return max(0, fetched_ns - SAMPLE_NS * loader.batch_size * loader.length)


def _needless(run: RunResults) -> bool:
    wait = run.per_step(Phase.DATA_WAIT)
    if wait is None or run.epoch_starts is None:
        return False
    wait_ns = max(0, wait.mean_ns - run.epoch_starts.steady_mean_ns)
    return without_workers(run, exposed(run, Phase.DATA_WAIT, wait_ns)) is not None


def _of_epochs(run: RunResults) -> Finding | Abstained | None:
    starts, loader, steps = run.epoch_starts, run.start.loader, run.steps
    if starts is None or steps is None or run.step_ns is None:
        return Abstained(ID, "no start of an epoch was measured")
    workers = loader.num_workers if loader else None
    if workers == 0:
        return None
    again = starts.count - 1
    persistent = bool(loader and loader.persistent_workers)
    # Workers that are kept do not start again: the rest of the wait is the first batch's making.
    if not again or (persistent and not starts.remade_ns):
        return None
    waited_ns, slowed_ns = starts.again_ns // again, starts.slowed_ns // again
    if not waited_ns:
        return None
    per_epoch_ns = waited_ns + slowed_ns
    first_batch_ns = min(waited_ns, (workers or 1) * run.step_ns)
    if persistent and waited_ns == first_batch_ns:
        return None  # train_dataloader may return the same loader each time
    needless = _needless(run)
    _, most_ns = around(per_epoch_ns * again // steps.ran)
    # Workers that are kept fill their queues beside the first steps all the same.
    sure_ns = waited_ns - first_batch_ns + slowed_ns * needless
    saving = Range(low=sure_ns * again // steps.ran, high=most_ns)
    cost_ns = (starts.again_ns + starts.slowed_ns) // steps.ran
    change: str | None = f"DataLoader(..., num_workers={workers or 2}, persistent_workers=True)"
    advice = KEEP
    if needless:
        advice, change = f"The {ROWS}", WITHOUT
    elif starts.remade_ns:
        advice, change = KEEP + ANEW, RELOAD if persistent else None
    seen = worker_lines(run.notes)
    advice += _seen_starting(seen, waited_ns)
    evidence: dict[str, int | float] = {
        "startup_ns": cost_ns,
        "startup_per_epoch_ns": per_epoch_ns,
        "slowed_per_epoch_ns": slowed_ns,
        "epochs_count": starts.count,
        "step_ns": run.step_ns,
    }
    if workers is not None:
        evidence["num_workers_count"] = workers
    if seen is not None and seen.start_ns is not None:
        evidence["process_start_ns"] = seen.start_ns
    if seen is not None and seen.init_ns is not None:
        evidence["worker_init_ns"] = seen.init_ns
    return Finding(
        id=ID,
        severity=grade(saving, run.step_ns),
        title=f"Each epoch after the first waits {duration(per_epoch_ns)} for data workers to "
        f"start ({percent(cost_ns / run.step_ns)} of all steps)",
        advice=advice,
        evidence=evidence,
        saving_ns=saving,
        confidence=0.9,
        where=(Where(phase=Phase.DATA_WAIT.value),),
        when=When.BETWEEN,
        change=change,
    )


def _seen_starting(seen: WorkerLines | None, waited_ns: int) -> str:
    """Return what of a worker's start was timed, where it is a good part of an epoch's wait."""
    parts = []
    if seen is not None and (seen.start_ns or 0) >= PART_FRAC * waited_ns:
        parts.append(
            f"{duration(seen.start_ns or 0)} until it ran (where workers are spawned, each imports "
            "the program's main file, and the dataset is sent to it)"
        )
    if seen is not None and (seen.init_ns or 0) >= PART_FRAC * waited_ns:
        parts.append(f"{duration(seen.init_ns or 0)} in its worker_init_fn")
    return f" A worker's start took {' and '.join(parts)}." if parts else ""
