"""The training loop waits for the next batch.

## What it measures
`data_wait_ns`: mean time per steady step that the loop spends asking its data fetcher for the next
batch, on the host clock, without the extra wait at the start of an epoch (that is
`worker-startup`). The copy to the device is not in it.

## Why it matters
The host queues no work while it waits, so a device that has caught up stands idle. With
`num_workers=0` the wait is the whole making of a batch, in the training process itself.

## What to do
Move slow work out of `__getitem__` and the collate function: decode or encode once, before
training; keep tensors, index whole batches. Or let worker processes make the batches
(`num_workers`, with `persistent_workers=True`), but fewer than there are cores. Workers cannot help
where every core is busy, where a batch costs less than handing it over, and with a slow sampler or
batch sampler, which runs in the training process. An `IterableDataset` must share its samples out
among its workers (`get_worker_info`): without that each of them yields all.

## Thresholds
The saving is modelled, not taken to be the whole wait: with workers a step takes at best the larger
of its other work and `fetch / workers`, at worst fetching competes with training for the cores; on
a GPU, only the device's idle time during the wait counts (`analysis/input_pipeline.py`,
`analysis/hidden.py`). `RECEIVING_FRAC`: where the training process is busy for most of the wait, it
unpacks what workers sent or runs the sampler, and more of them would not help. Behind a sampler of
your own, or an `IterableDataset`, workers may help nothing: the low bound is 0. Severity: the
common scale (`findings/grade.py`).
"""

from lightning_gpuprof.analysis.hidden import exposed
from lightning_gpuprof.analysis.input_pipeline import (
    HANDOVER_HIGH_NS,
    HANDOVER_LOW_NS,
    WorkerPlan,
    plan_workers,
)
from lightning_gpuprof.analysis.run import RunResults
from lightning_gpuprof.findings.grade import WARNING_FRAC, grade
from lightning_gpuprof.findings.model import Abstained, Effort, Finding, Horizon, Range, Where
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.records.schema import Loader
from lightning_gpuprof.units import duration, percent

ID = "data-wait"
RECEIVING_FRAC = 0.5
SHARDING = """
# in the dataset's __iter__, or each worker yields every sample:
info = torch.utils.data.get_worker_info()
if info is not None:
    samples = itertools.islice(samples, info.id, None, info.num_workers)"""
EFFORT = Effort(
    Horizon.QUICK,
    "one or two arguments of the DataLoader",
    "workers need memory and cores of their own",
)


def evaluate(run: RunResults) -> Finding | Abstained | None:
    """Return a finding where the wait for data lengthens the step."""
    wait, step_ns = run.per_step(Phase.DATA_WAIT), run.step_ns
    if wait is None or step_ns is None:
        return Abstained(ID, "no step's wait for data was measured")
    startup_ns = run.epoch_starts.steady_mean_ns if run.epoch_starts else 0
    wait_ns = max(0, wait.mean_ns - startup_ns)
    lost = exposed(run, Phase.DATA_WAIT, wait_ns)
    if lost.high_ns < WARNING_FRAC * step_ns:
        return None
    loader = run.start.loader
    workers = loader.num_workers if loader else None
    evidence: dict[str, int | float] = {
        "data_wait_ns": wait_ns,
        "data_wait_frac": wait_ns / step_ns,
        "step_ns": step_ns,
    }
    if workers is not None:
        evidence["num_workers_count"] = workers
    if run.start.cpu_count is not None:
        evidence["cpu_count"] = run.start.cpu_count
    plan = _plan(run, step_ns, wait_ns)
    advice, change, saving = _without_workers(lost.high_ns, loader.sampler if loader else None)
    cores = run.start.cpu_count
    receiving = run.receiving_frac if workers else None
    if receiving is not None:
        evidence["receiving_frac"] = receiving
    if receiving is not None and receiving >= RECEIVING_FRAC:
        advice, change, saving = _hand_over_less(
            receiving, lost.high_ns, loader.sampler if loader else None
        )
    elif workers and cores is not None and workers >= cores:
        advice, change, saving = _fewer_workers(workers, cores, lost.high_ns)
    elif plan is not None:
        high = min(lost.high_ns, step_ns - plan.step_low_ns)
        low = min(lost.low_ns, max(0, step_ns - plan.step_high_ns))
        if workers:
            # Part of the wait is taking the batch over, which more workers do not shorten.
            low, high = max(0, low - HANDOVER_HIGH_NS), high - HANDOVER_LOW_NS
        if loader is not None and (loader.sampler or loader.dataset_kind == "iterable"):
            low = 0
        if high > 0:
            advice, change, saving = _with_workers(plan, workers, Range(low=low, high=high))
            advice += _caveats(loader)
            if loader is not None and loader.dataset_kind == "iterable":
                change += SHARDING
    return Finding(
        id=ID,
        severity=grade(saving, step_ns),
        title=f"{percent(wait_ns / step_ns)} of each step ({duration(wait_ns)}) is spent waiting "
        "for data",
        advice=advice,
        evidence=evidence,
        saving_ns=saving,
        confidence=0.9 if lost.basis != "unknown" and workers is not None else 0.6,
        where=(Where(phase=Phase.DATA_WAIT.value),),
        change=change,
    )


def _plan(run: RunResults, step_ns: int, wait_ns: int) -> WorkerPlan | None:
    loader, cores = run.start.loader, run.start.cpu_count
    if loader is None or loader.num_workers is None or cores is None:
        return None
    if cores < 2 or loader.num_workers >= cores:
        return None
    return plan_workers(
        step_ns=step_ns, wait_ns=wait_ns, num_workers=loader.num_workers, cpu_count=cores
    )


def _with_workers(plan: WorkerPlan, now: int | None, saving: Range) -> tuple[str, str, Range]:
    advice = (
        f"Make batches in {plan.num_workers} worker process{'es' * (plan.num_workers > 1)} "
        f"instead of {now or 'the training process'}: one batch takes "
        f"{'at most ' if now else ''}{duration(plan.fetch_ns)}. Or make them cheaper: move slow "
        "work out of __getitem__ and collate (decode or encode once, before training)."
    )
    change = f"DataLoader(..., num_workers={plan.num_workers}, persistent_workers=True)"
    return advice, change, saving


def _caveats(loader: Loader | None) -> str:
    """Say where workers cannot help, or need something of the dataset."""
    said = ""
    if loader is not None and loader.sampler:
        said += (
            f" {loader.sampler} runs in the training process with any number of workers: time it "
            "first."
        )
    if loader is not None and loader.dataset_kind == "iterable":
        said += (
            " The dataset is an IterableDataset: it must share its samples out among the workers, "
            "or each yields all of them."
        )
    return said


def _hand_over_less(receiving: float, wait_ns: int, sampler: str | None) -> tuple[str, str, Range]:
    advice = (
        f"{percent(receiving)} of the wait is this process taking batches from its workers, not "
        "waiting for them: make batches without workers, or fewer and larger tensors per batch."
    )
    if sampler:
        advice += f" {sampler} runs in this process too: time it first."
    return advice, "DataLoader(..., num_workers=0)", Range(low=wait_ns // 3, high=wait_ns)


def _fewer_workers(workers: int, cores: int, wait_ns: int) -> tuple[str, str, Range]:
    fewer = max(1, cores - 1)
    advice = (
        f"{workers} workers on {cores} cores take turns with the training itself: use fewer "
        f"({fewer}, or 0 where a batch is cheap to make), and make __getitem__ cheaper."
    )
    return advice, f"DataLoader(..., num_workers={fewer})", Range(low=0, high=wait_ns)


def _without_workers(wait_ns: int, sampler: str | None) -> tuple[str, None, Range]:
    advice = (
        "More workers would not hide this wait here: make __getitem__ and the collate function "
        "cheaper (decode once, keep tensors, index whole batches), or read from faster storage."
    )
    if sampler:
        advice += f" {sampler} runs in this process: time it first."
    return advice, None, Range(low=0, high=wait_ns)
