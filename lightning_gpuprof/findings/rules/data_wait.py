"""The training loop waits for the next batch.

## Symptom
The phase `data_wait` takes a noticeable share of the step.

## Why
The host queues no work while it waits, so a device that has finished its work stands idle. Without
data workers, the wait is the time in which the training process makes the batch itself.

## Fix
```python
DataLoader(data)  # before
DataLoader(data, num_workers=4, persistent_workers=True)  # after
```

Or do work once instead of for every sample: decode before training, and index whole batches.
Workers do not help if the sampler is slow, if all cores are busy, or if sending a batch takes
longer than making it. Workers that sleep, or wait for a network, may be more than there are cores.

## How it is measured
`data_wait_ns` is the mean wait per steady step, without the starts of epochs. It has three parts:
drawing indices (the sampler), making the batch and receiving it from a worker. The saving is
estimated from the number of cores and from sampled lines (docs/adr/0031). Code of your own that
surely takes a fifth of making batches, and draws no random numbers, comes before workers. Waits in
validation count too if they are at the same lines.

## Limits
On a GPU, only the part of the wait counts in which the device was idle. With more than one worker,
an `IterableDataset` must divide its samples among them.
"""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.worker_lines import (
    asleep_frac,
    batch_lines,
    batch_reads,
    made_in_ns,
    storage_frac,
)
from lightning_gpuprof.analysis.savings.cheaper_batches import (
    OwnCode,
    draws,
    own_code,
    validation_ns,
)
from lightning_gpuprof.analysis.savings.hidden import exposed
from lightning_gpuprof.analysis.savings.loader_plan import (
    LoaderChange,
    LoaderPlan,
    NoWorkers,
    loader_plan,
    rows_in_memory,
)
from lightning_gpuprof.findings.grade import WARNING_FRAC
from lightning_gpuprof.findings.model import Effort, Finding, Horizon, Place, Range, Severity
from lightning_gpuprof.findings.operators import (
    OWN_WORKERS,
    SampledOperation,
    loading_operations,
)
from lightning_gpuprof.findings.rule import evidence_of, measured, rule
from lightning_gpuprof.paths import short_path
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.units import duration, interval_text, percent, size

MOST = 0.5
"""If operations have this share of the wait together, their own advice is enough."""
ADVICE = {
    LoaderChange.ROWS: "Samples are rows of tensors in memory, which are faster to index than to "
    "send: make batches in the training process, or index a whole batch at once (__getitems__).",
    LoaderChange.WHOLE: "Samples are rows of tensors in memory. Index a whole batch at once "
    "(__getitems__) instead of row by row, which also leaves nothing to collate.",
    LoaderChange.SAMPLER: "{sampler} takes most of the wait. It runs in the training process, so "
    "workers do not help: order a whole epoch at once, with tensor operations.",
    LoaderChange.NO_WORKERS: "Most of the wait is receiving batches from workers: make batches "
    "without workers, or send fewer and larger tensors per batch.",
    LoaderChange.SMALLER: "Workers have batches ready, and the wait is receiving them. Send fewer "
    "bytes and tensors: uint8 instead of float32, crops, a few stacked tensors.",
    LoaderChange.WORKERS: "Make batches in {workers} instead of {now}.",
    LoaderChange.STORAGE: "The processes that make batches wait for storage{filesystem}: pack "
    "samples into larger files that are read in sequence, copy the data to a local disk first, or "
    "use more workers than cores, so that several wait at the same time.",
    LoaderChange.ASLEEP: "Workers wait as they make batches, for a network or another process, and "
    "use no core meanwhile: use more workers than cores, so that several wait at the same time, or "
    "ask for many items at once.",
    LoaderChange.CHEAPER: "Make {what} cheaper: do once, beforehand, what gives the same in "
    "every epoch (decoding, parsing, features), store tensors, and index whole batches instead of "
    "samples.",
}
FEW_FRAC = 0.25
"""If the median wait is below this share of the mean, single late batches are waited for."""
NO_LOADER = (
    "Make what the loop iterates over cheaper: it is no DataLoader, so the training process makes "
    "each batch. Do work once, before the loop, and on whole batches."
)
WHOLE = """\
class Rows(TensorDataset):
    def __getitems__(self, indices):
        return [tensor[indices] for tensor in self.tensors]

DataLoader(Rows(...), ..., collate_fn=list)"""
LATE = (
    " The wait lies in few steps: a late batch holds up those behind it. in_order=False (torch 2.6 "
    "and later) takes batches as they come, in a varying order."
)
SECOND = " Workers come second, to hide what is left: {code} (alone, {saved})."
WHY_NO_WORKERS = {
    NoWorkers.EVERY_CORE: "{now} workers already use all {cores} cores.",
    NoWorkers.SHARED: "Leave num_workers at 0: the dataset reads {shares} during training, and "
    "workers would see an outdated copy.",
    NoWorkers.BUSY: "Training uses all {cores} cores: workers may cost more than they hide.",
    NoWorkers.LITTLE: "More workers would hardly hide this wait.",
}
RANDOM = "Apply random augmentation to a whole batch at once, in one tensor operation."
ITERABLE = (
    "The dataset is an IterableDataset: more than one worker would repeat every sample, unless the "
    "dataset divides its reads among them (get_worker_info)."
)
SHARDING = """
# in the dataset's __iter__, before anything is read, or each worker yields every sample:
info = torch.utils.data.get_worker_info()
if info is not None:
    files = files[info.id :: info.num_workers]"""
EFFORT = Effort(
    Horizon.QUICK, "arguments of the DataLoader", "workers need memory and cores of their own"
)
EFFORTS = {
    LoaderChange.ROWS: Effort(Horizon.QUICK, "one argument of the DataLoader", "none"),
    LoaderChange.NO_WORKERS: Effort(Horizon.QUICK, "one argument of the DataLoader", "none"),
    LoaderChange.WHOLE: Effort(Horizon.QUICK, "one method of the dataset", "none"),
    LoaderChange.SAMPLER: Effort(Horizon.MEDIUM, "the sampler's code", "the order may differ"),
    LoaderChange.STORAGE: Effort(
        Horizon.MEDIUM, "how or where samples are stored", "copied data needs room"
    ),
    LoaderChange.SMALLER: Effort(
        Horizon.MEDIUM, "what the collate function returns", "the model gets other inputs"
    ),
    LoaderChange.CHEAPER: Effort(
        Horizon.MEDIUM, "work done once instead of per sample", "prepared samples need room"
    ),
}
"""What changes take other than those of workers."""


@rule(id="data-wait", needs=("steps",), effort=EFFORT)
def judge(run: RunResults) -> Finding | None:
    """Return the finding about the wait for data."""
    wait_ns, step_ns = run.wait_ns, measured(run.step_ns)
    if wait_ns is None:
        return None
    lost = exposed(run, Phase.DATA_WAIT, wait_ns)
    plan = rows_in_memory(run, lost)
    if plan is None and min(wait_ns, lost.high_ns) < WARNING_FRAC * step_ns:
        return None
    plan = plan or loader_plan(run, step_ns, wait_ns, lost)
    loader = run.start.loader
    saving = Range(low=plan.low_ns, high=plan.high_ns)
    cause_ns = wait_ns + (validation_ns(run) if plan.change is LoaderChange.CHEAPER else 0)
    also = ", validation too" if cause_ns > wait_ns else ""
    for operation in loading_operations(batch_lines(run)):
        if operation.pattern.name == OWN_WORKERS:
            also += f", {percent(operation.frac)} of it for own workers"
    also = also or _of_entry(run, plan)
    return Finding(
        severity=Severity.BY_SAVING if plan.sure else Severity.INFO,
        title=f"{percent(cause_ns / step_ns)} of each step ({duration(cause_ns)}) waits for data"
        f"{also}",
        advice=_advice(run, plan),
        evidence=_evidence(run, step_ns, wait_ns) | _of_other_change(plan),
        saving_ns=saving,
        cause_ns=Range(cause_ns, cause_ns),
        beyond_ns=plan.beyond_ns,
        confidence=0.9
        if lost.basis != "unknown" and loader and loader.num_workers is not None
        else 0.6,
        places=(Place(phase=Phase.DATA_WAIT.value),),
        change=_change(run, plan),
        setting=None if (workers := _workers(plan)) is None else f"num_workers={workers}",
        effort=EFFORTS.get(plan.change),
    )


def _advice(run: RunResults, plan: LoaderPlan) -> str:
    """Return what to do, why more workers are not proposed, and the second-best change."""
    loader = run.start.loader
    figures = dict(
        cores=run.cores,
        now=(loader.num_workers if loader else None) or "the training process",
        sampler=(loader.sampler if loader else None) or "The sampler",
        shares=loader.shares if loader else None,
        workers=_processes(plan.num_workers),
        filesystem=_stored(run),
    )
    cheaper = plan.change is LoaderChange.CHEAPER
    advice = _cheaper(run) if cheaper else ADVICE[plan.change].format(**figures)
    if plan.why:
        advice += f" {WHY_NO_WORKERS[plan.why].format(**figures)}"
    if plan.change is LoaderChange.WORKERS and loader and loader.dataset_kind == "iterable":
        advice += f" {ITERABLE}"
    if plan.change is LoaderChange.ASLEEP and _in_few_steps(run):
        advice += LATE
    if plan.instead is not None:
        saved = interval_text(plan.instead.low_ns, plan.instead.high_ns)
        other = _change(run, plan.instead)
        if cheaper and other:
            return advice + SECOND.format(code=other.split("\n")[0], saved=saved)
        other = other.split("\n")[0] if other else f"cheaper samples. {_cheaper(run)}"
        advice += f" Alternative (saves {saved}): {other}"
    return advice


def _processes(count: int) -> str:
    return "1 worker process" if count == 1 else f"{count} worker processes"


def _of_other_change(plan: LoaderPlan) -> dict[str, int | float]:
    """Return what the second-best change saves, which the advice names."""
    if plan.instead is None:
        return {}
    return {"instead_low_ns": plan.instead.low_ns, "instead_high_ns": plan.instead.high_ns}


def _makes_batches(run: RunResults, own: OwnCode | None) -> str:
    """Return the functions that make batches: the one that takes most, or all that may."""
    if own is not None and own.entry is not None and own.entry_frac >= MOST:
        return own.entry
    loader = run.start.loader
    iterates = loader is not None and loader.dataset_kind == "iterable"
    method = "__iter__" if iterates else "__getitem__"
    dataset = f"{loader.dataset}." if loader is not None and loader.dataset else ""
    collate = (loader.collate if loader is not None else None) or "the collate function"
    return f"{dataset}{method} and {collate}"


def _of_entry(run: RunResults, plan: LoaderPlan) -> str:
    """Return the dataset's method or the collate function that takes most of it, if known."""
    own = own_code(run)
    made = plan.change in (LoaderChange.CHEAPER, LoaderChange.WORKERS, LoaderChange.ASLEEP)
    if own is None or own.entry is None or not made:
        return ""
    if own.entry_frac >= MOST:
        return f", mostly in {own.entry}"
    return f", {percent(own.entry_frac)} of it in {own.entry}"


def _in_few_steps(run: RunResults) -> bool:
    """Return whether most of the wait lies in less than half of the steps."""
    wait = run.per_step(Phase.DATA_WAIT)
    return wait is not None and wait.median_ns < FEW_FRAC * wait.mean_ns


def _stored(run: RunResults) -> str:
    """Return in brackets which file system the data is on, and how much a batch reads."""
    sampled = [lines for lines in (run.loader.workers, run.lines) if lines is not None]
    facts = [lines.filesystem for lines in sampled if lines.filesystem][:1]
    read = batch_reads(run)
    if read is not None:
        facts.append(f"{size(read[0])} in {read[1]} reads per batch")
    return f" ({', '.join(facts)})" if facts else ""


def _cheaper(run: RunResults) -> str:
    """Return how to make batches cheaper.

    That is the advice on the operations that were sampled, and the general advice unless they are
    most of the wait.
    """
    operations, own = loading_operations(batch_lines(run)), own_code(run)
    sentences = [_advice_on(operation) for operation in operations]
    if sum(operation.frac for operation in operations) < MOST:
        general = ADVICE[LoaderChange.CHEAPER] if run.start.loader else NO_LOADER
        sentences.append(general.format(what=_makes_batches(run, own)))
    if own:
        share = "Most" if own.frac >= MOST else percent(own.frac)
        sentences.append(f"{share} of it is your own code, above all {own.name}.")
    if draws(run):
        sentences.append(RANDOM)
    return " ".join(sentences)


def _advice_on(operation: SampledOperation) -> str:
    """Return the advice on an operation, with its share of the wait and its line."""
    line = operation.line
    name = line.callee or f"`{line.source.split('#')[0].strip()}`"
    advice = operation.pattern.whole_advice.rstrip(".")
    return f"{advice} ({name}, {percent(operation.frac)}, {short_path(line.file)}:{line.line})."


def _workers(plan: LoaderPlan) -> int | None:
    """Return the number of workers that a plan sets; None if it changes something else."""
    if plan.change in (LoaderChange.ROWS, LoaderChange.NO_WORKERS):
        return 0
    of_workers = LoaderChange.WORKERS, LoaderChange.STORAGE, LoaderChange.ASLEEP
    return plan.num_workers or None if plan.change in of_workers else None


def _change(run: RunResults, plan: LoaderPlan) -> str | None:
    if plan.change is LoaderChange.WHOLE:
        return WHOLE
    workers, loader = _workers(plan), run.start.loader
    if workers is None:
        return None
    persistent = ", persistent_workers=True" if workers and run.trains else ""
    change = f"DataLoader(..., num_workers={workers}{persistent})"
    iterable = loader is not None and loader.dataset_kind == "iterable"
    return change + (SHARDING if iterable and workers > 1 else "")


def _evidence(run: RunResults, step_ns: int, wait_ns: int) -> dict[str, int | float]:
    loader, sampled, io = run.start.loader, run.loader.workers, run.facts.io_pressure
    read = batch_reads(run) or (None, None)
    workers = loader.num_workers if loader else None
    return evidence_of(
        data_wait_ns=wait_ns,
        data_wait_frac=wait_ns / step_ns,
        num_workers_count=workers,
        cpu_count=run.cores,
        sampler_frac=run.loader.wait.sampler_frac,
        receiving_frac=run.loader.wait.receiving_frac,
        sample_ns=round(wait_ns / run.batch_size) if run.batch_size and not workers else None,
        worker_samples_count=sampled.whole if sampled else None,
        worker_waiting_frac=sampled.waiting_frac if sampled else None,
        worker_batch_ns=made_in_ns(run),
        storage_frac=storage_frac(run),
        worker_asleep_frac=asleep_frac(run),
        batch_read_bytes=read[0],
        batch_reads_count=read[1],
        io_pressure_frac=io.stalled_ns / max(1, io.wall_ns) if io else None,
    )
