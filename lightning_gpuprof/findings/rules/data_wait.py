"""The training loop waits for the next batch.

## Symptom
`data_wait` takes a noticeable share of the step.

## Why
The host queues no work while it waits, so a device that has caught up stands idle. Without
workers the wait is the making of a batch.

## Fix
```python
DataLoader(data)  # before
DataLoader(data, num_workers=4, persistent_workers=True)  # after
```

Or decode once, before training, and index whole batches. Workers do not help a slow sampler, on
busy cores, or where a batch costs less than sending it.

## How it is measured
`data_wait_ns`: mean wait per steady step, without epochs' starts, in three parts (sampler, making,
receiving). The saving is an estimate from cores and sampled lines (docs/adr/0031), in validation
too where that is at the same lines.

## Limits
On a GPU only the device's idle time during the wait counts. An `IterableDataset` must shard its
samples among workers.
"""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.worker_lines import (
    batch_lines,
    batch_reads,
    made_in_ns,
    storage_frac,
)
from lightning_gpuprof.analysis.savings.cheaper_batches import draws, own_code, validation_ns
from lightning_gpuprof.analysis.savings.hidden import exposed
from lightning_gpuprof.analysis.savings.loader_plan import (
    LoaderChange,
    LoaderPlan,
    loader_plan,
    rows_in_memory,
)
from lightning_gpuprof.findings.grade import WARNING_FRAC
from lightning_gpuprof.findings.model import Effort, Finding, Horizon, Range, Severity, Where
from lightning_gpuprof.findings.operators import OWN_WORKERS, Seen, seen_loading, tables
from lightning_gpuprof.findings.rule import evidence_of, measured, rule
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.units import duration, interval_text, percent, size

MOST = 0.5
TEXTS: dict[str, str] = tables("advice.toml")["loader"]
"""By change of the loader, by reason against more workers, and of drawn or streamed data."""
SHARDING = """
# in the dataset's __iter__, before anything is read, or each worker yields every sample:
info = torch.utils.data.get_worker_info()
if info is not None:
    files = files[info.id :: info.num_workers]"""
EFFORT = Effort(
    Horizon.QUICK,
    "one or two arguments of the DataLoader, or work done once instead of per sample",
    "workers need memory and cores of their own",
)


@rule(id="data-wait", needs=("steps",), effort=EFFORT)
def judge(run: RunResults) -> Finding | None:
    """Return a finding where the wait for data lengthens the step."""
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
    also = ", validation too" * (cause_ns > wait_ns)
    for seen in seen_loading(batch_lines(run)):
        own = seen.pattern.name == OWN_WORKERS
        also += f", {percent(seen.frac)} of it for own workers" * own
    return Finding(
        severity=Severity.BY_SAVING if plan.sure else Severity.INFO,
        title=f"{percent(cause_ns / step_ns)} of each step ({duration(cause_ns)}) waits for data"
        f"{also}",
        advice=_advice(run, plan),
        evidence=_evidence(run, step_ns, wait_ns),
        saving_ns=saving,
        cause_ns=Range(cause_ns, cause_ns),
        confidence=0.9
        if lost.basis != "unknown" and loader and loader.num_workers is not None
        else 0.6,
        where=(Where(phase=Phase.DATA_WAIT.value),),
        change=_change(run, plan),
    )


def _advice(run: RunResults, plan: LoaderPlan) -> str:
    """Return what to do, why not something else, and the other change that is open."""
    loader = run.start.loader
    words = dict(
        cores=run.cores,
        now=(loader.num_workers if loader else None) or "the training process",
        sampler=(loader.sampler if loader else None) or "The sampler",
        shares=loader.shares if loader else None,
        workers=plan.num_workers,
        filesystem=_stored(run),
    )
    cheaper = plan.change is LoaderChange.CHEAPER
    advice = _cheaper(run) if cheaper else TEXTS[plan.change.value].format(**words)
    advice += f" {TEXTS[plan.why.value].format(**words)}" if plan.why else ""
    if plan.change is LoaderChange.WORKERS and loader and loader.dataset_kind == "iterable":
        advice += f" {TEXTS['iterable']}"
    if plan.instead is not None:
        saved = interval_text(plan.instead.low_ns, plan.instead.high_ns)
        other = _change(run, plan.instead)
        other = other.split("\n")[0] if other else f"cheaper samples. {_cheaper(run)}"
        advice += f" Instead, saving {saved}: {other}"
    return advice


def _stored(run: RunResults) -> str:
    """Return in brackets on which file system the data are, and how a batch is read."""
    kinds = [one.filesystem for one in (run.worker_lines, run.lines) if one is not None]
    read, words = batch_reads(run), [kind for kind in kinds if kind][:1]
    if read is not None:
        words.append(f"{size(read[0])} in {read[1]} reads per batch")
    return f" ({', '.join(words)})" if words else ""


def _cheaper(run: RunResults) -> str:
    """Return advice on the operations that were seen; where few were, the general one."""
    lines, own = batch_lines(run), own_code(run)
    seen, drawn = seen_loading(lines), draws(run)
    named = " ".join(_named(one) for one in seen)
    if sum(one.frac for one in seen) < MOST:
        named = f"{named} {TEXTS[LoaderChange.CHEAPER.value]}".strip()
    mostly = f" Most of it is your own code, above all {own.function}." if own else ""
    return named + mostly + (f" {TEXTS['drawn']}" if drawn else "")


def _named(one: Seen) -> str:
    name = one.line.callee or f"`{one.line.source.split('#')[0].strip()}`"
    place = f"{one.line.file}:{one.line.line}"
    return f"{one.pattern.advice.rstrip('.')} ({name}, {percent(one.frac)}, {place})."


def _change(run: RunResults, plan: LoaderPlan) -> str | None:
    if plan.change in (LoaderChange.ROWS, LoaderChange.NO_WORKERS):
        return "DataLoader(..., num_workers=0)"
    if plan.change not in (LoaderChange.WORKERS, LoaderChange.STORAGE) or not plan.num_workers:
        return None
    change = f"DataLoader(..., num_workers={plan.num_workers}, persistent_workers=True)"
    loader = run.start.loader
    iterable = loader is not None and loader.dataset_kind == "iterable"
    return change + (SHARDING if iterable and plan.num_workers > 1 else "")


def _evidence(run: RunResults, step_ns: int, wait_ns: int) -> dict[str, int | float]:
    loader, seen, io = run.start.loader, run.worker_lines, run.io_pressure
    read = batch_reads(run) or (None, None)
    workers = loader.num_workers if loader else None
    return evidence_of(
        data_wait_ns=wait_ns,
        data_wait_frac=wait_ns / step_ns,
        num_workers_count=workers,
        cpu_count=run.cores,
        sampler_frac=run.loader_wait.sampler_frac,
        receiving_frac=run.loader_wait.receiving_frac,
        sample_ns=round(wait_ns / run.batch_size) if run.batch_size and not workers else None,
        worker_samples_count=seen.whole if seen else None,
        worker_waiting_frac=seen.waiting_frac if seen else None,
        worker_batch_ns=made_in_ns(run),
        storage_frac=storage_frac(run),
        batch_read_bytes=read[0],
        batch_reads_count=read[1],
        io_pressure_frac=io.stalled_ns / max(1, io.wall_ns) if io else None,
    )
