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
(`num_workers`, with `persistent_workers=True`), but fewer than there are cores, with fewer threads
for torch where it computes on all of them. Workers cannot help where every core fetches already,
where a batch costs less than handing it over, and with a slow sampler or batch sampler, which runs
in the training process. A dataset that reads the model, or a replay buffer that training fills,
stays in the training process: a worker has a copy. An `IterableDataset` must share its samples out
among its workers (`get_worker_info`): without that each of them yields all.

## Thresholds
The saving is modelled, not taken to be the whole wait: with workers a step takes at best the larger
of its other work, `fetch / workers` and what all cores together need, at worst fetching competes
with training for the cores; on a GPU, only the device's idle time during the wait counts
(`savings/input_pipeline.py`, `savings/hidden.py`). The wait is measured in three parts, and the
change is for the largest: `MOST` of it in the sampler, which runs in the training process with any
number of workers; in taking batches over from workers, where more of them would not help; or in
making batches. What a batch takes to make is not known with workers that keep up, so to do without
them is told as `info`, unless there are more of them than cores (`CROWDED`). An `IterableDataset`
read in the training process goes to one worker, which needs no sharing out and keeps the order; one
that has workers, or a sampler of your own where its part was not measured, may leave more of them
nothing to do: the low bound is 0. Where torch computes on every core (`MOSTLY` in
`savings/host_work.py`), workers beside it make the step longer: the cores are divided between
workers and torch's threads where that is a sure gain (`divide_cores`), else none are proposed.
Workers on every core that are waited for are not told to be fewer: every core makes batches
already, and what cheaper batches save depends on the code. Severity: the common scale
(`findings/grade.py`).
"""

from dataclasses import dataclass

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.savings.hidden import Exposed, exposed
from lightning_gpuprof.analysis.savings.host_work import computes_on_all_cores
from lightning_gpuprof.analysis.savings.input_pipeline import (
    HANDOVER_HIGH_NS,
    HANDOVER_LOW_NS,
    CorePlan,
    WorkerPlan,
    divide_cores,
    most_workers,
    plan_workers,
)
from lightning_gpuprof.findings.grade import WARNING_FRAC, grade
from lightning_gpuprof.findings.model import (
    Abstained,
    Effort,
    Finding,
    Horizon,
    Range,
    Severity,
    Where,
)
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.records.schema import Loader
from lightning_gpuprof.units import duration, percent

ID = "data-wait"
MOST = 0.5
CROWDED = 4
"""More workers than cores cost training up to a quarter more than the wait."""
SAMPLER_LEFT = 0.1
"""At most that much of a sampler's time is left once it orders an epoch instead of each batch."""
SHARDING = """
# in the dataset's __iter__, before anything is read, or each worker yields every sample:
info = torch.utils.data.get_worker_info()
if info is not None:
    files = files[info.id :: info.num_workers]"""
EFFORT = Effort(
    Horizon.QUICK,
    "one or two arguments of the DataLoader",
    "workers need memory and cores of their own",
)


@dataclass(frozen=True)
class _Cure:
    advice: str
    change: str | None
    saving: Range
    sure: bool = True
    """The change cannot make the step longer."""


def evaluate(run: RunResults) -> Finding | Abstained | None:
    """Return a finding where the wait for data lengthens the step."""
    wait, step_ns = run.per_step(Phase.DATA_WAIT), run.step_ns
    if wait is None or step_ns is None:
        return Abstained(ID, "no step's wait for data was measured")
    startup_ns = run.epoch_starts.steady_mean_ns if run.epoch_starts else 0
    wait_ns = max(0, wait.mean_ns - startup_ns)
    lost = exposed(run, Phase.DATA_WAIT, wait_ns)
    most_ns = min(wait_ns, lost.high_ns)
    if most_ns < WARNING_FRAC * step_ns:
        return None
    cure = _cure(run, step_ns, wait_ns, lost)
    workers = run.start.loader.num_workers if run.start.loader else None
    return Finding(
        id=ID,
        severity=grade(cure.saving, step_ns) if cure.sure else Severity.INFO,
        title=f"{percent(wait_ns / step_ns)} of each step ({duration(wait_ns)}) is spent waiting "
        "for data",
        advice=cure.advice,
        evidence=_evidence(run, step_ns, wait_ns),
        saving_ns=cure.saving,
        confidence=0.9 if lost.basis != "unknown" and workers is not None else 0.6,
        where=(Where(phase=Phase.DATA_WAIT.value),),
        change=cure.change,
    )


def _evidence(run: RunResults, step_ns: int, wait_ns: int) -> dict[str, int | float]:
    found: dict[str, int | float | None] = {
        "data_wait_ns": wait_ns,
        "data_wait_frac": wait_ns / step_ns,
        "step_ns": step_ns,
        "num_workers_count": run.start.loader.num_workers if run.start.loader else None,
        "cpu_count": run.cores,
        "sampler_frac": run.loader_wait.sampler_frac,
        "receiving_frac": run.loader_wait.receiving_frac,
    }
    return {name: value for name, value in found.items() if value is not None}


def _cure(run: RunResults, step_ns: int, wait_ns: int, lost: Exposed) -> _Cure:
    """Choose the change for the largest part of the wait, and what it saves."""
    loader, parts, cores = run.start.loader, run.loader_wait, run.cores
    workers = loader.num_workers if loader else None
    sampler, most_ns = parts.sampler_frac or 0.0, min(wait_ns, lost.high_ns)
    if sampler >= MOST:
        return _quicker_sampler(loader, sampler, lost)
    if loader is not None and loader.shares and not workers:
        return _reads_module(loader.shares, most_ns)
    if workers and (parts.receiving_frac or 0.0) >= MOST:
        return _hand_over_less(parts.receiving_frac or 0.0, workers, cores, most_ns)
    if workers and cores is not None and workers >= cores:
        return _every_core_fetches(workers, cores, most_ns)
    waited = 1.0 - sampler if not workers or parts.workers_frac is None else parts.workers_frac
    busy = computes_on_all_cores(run)
    if busy:
        shared = core_plan(run, step_ns, round(waited * wait_ns))
        return _taking_turns(run, most_ns) if shared is None else _dividing(run, step_ns, shared)
    plan = _plan(run, step_ns, round(waited * wait_ns))
    if plan is None:
        return _without_workers(loader, most_ns)
    high = min(most_ns, step_ns - plan.step_low_ns)
    low = min(lost.low_ns, max(0, step_ns - plan.step_high_ns))
    if workers and parts.workers_frac is None:
        # Part of the wait is taking the batch over, which more workers do not shorten.
        low, high = max(0, low - HANDOVER_HIGH_NS), high - HANDOVER_LOW_NS
    if low <= 0 or high <= 0:
        # Handing a batch over may cost as much as making it here.
        return _without_workers(loader, most_ns)
    if _may_need_more_than_workers(run) or busy is None:
        low = 0
    return _with_workers(plan, loader, Range(low=min(low, high), high=high))


def _may_need_more_than_workers(run: RunResults) -> bool:
    loader = run.start.loader
    unknown = run.loader_wait.sampler_frac is None
    return loader is not None and (
        (loader.dataset_kind == "iterable" and bool(loader.num_workers))
        or (bool(loader.sampler) and unknown)
    )


def core_plan(run: RunResults, step_ns: int, wait_ns: int) -> CorePlan | None:
    """Return how to divide cores that training uses all; None where that is no sure gain."""
    loader, cores = run.start.loader, run.cores
    if loader is None or loader.num_workers != 0 or cores is None or cores < 2:
        return None
    return divide_cores(
        fetch_ns=wait_ns, compute_ns=step_ns - wait_ns, cores=cores, most=most_workers(loader)
    )


def _plan(run: RunResults, step_ns: int, wait_ns: int) -> WorkerPlan | None:
    loader, cores = run.start.loader, run.cores
    if loader is None or loader.num_workers is None or cores is None:
        return None
    if cores < 2 or loader.num_workers >= cores:
        return None
    return plan_workers(
        step_ns=step_ns,
        wait_ns=wait_ns,
        num_workers=loader.num_workers,
        cpu_count=cores,
        most=most_workers(loader),
    )


def _with_workers(plan: WorkerPlan, loader: Loader | None, saving: Range) -> _Cure:
    now = loader.num_workers if loader else None
    iterable = loader is not None and loader.dataset_kind == "iterable"
    advice = (
        f"Make batches in {plan.num_workers} worker process{'es' * (plan.num_workers > 1)} "
        f"instead of {now or 'the training process'}: one batch takes "
        f"{'at most ' if now else ''}{duration(plan.fetch_ns)}. That is the change whose saving "
        "is given. To make them cheaper saves up to the whole wait: move slow work out of "
        "__getitem__ and collate (decode or encode once, before training)."
    )
    if loader is not None and loader.sampler:
        advice += (
            f" {loader.sampler} runs in the training process with any number of workers: time it "
            "first."
        )
    change = f"DataLoader(..., num_workers={plan.num_workers}, persistent_workers=True)"
    if iterable and plan.num_workers == 1:
        advice += (
            " The dataset is an IterableDataset: one worker yields the same batches in the same "
            "order. More would each yield all samples, unless it shares out what it reads "
            "(files, not samples: get_worker_info)."
        )
    elif iterable:
        advice += (
            " The dataset is an IterableDataset: it must share out what it reads among the "
            "workers, or each yields all samples. Nothing is saved where each reads all of it "
            "and drops the others' samples."
        )
        change += SHARDING
    return _Cure(advice, change, saving)


def _quicker_sampler(loader: Loader | None, frac: float, lost: Exposed) -> _Cure:
    name = (loader.sampler if loader else None) or "The sampler"
    advice = (
        f"{name} takes {percent(frac)} of the wait. It runs in the training process, so no number "
        "of workers helps: order a whole epoch at once instead of each batch, with tensor "
        "operations instead of loops."
    )
    saving = Range(
        low=round((1 - SAMPLER_LEFT) * frac * lost.low_ns), high=round(frac * lost.high_ns)
    )
    return _Cure(advice, None, saving)


def _hand_over_less(frac: float, workers: int, cores: int | None, wait_ns: int) -> _Cure:
    advice = (
        f"{percent(frac)} of the wait is this process taking batches from its workers, not "
        "waiting for them: make batches without workers, or fewer and larger tensors per batch."
    )
    change = "DataLoader(..., num_workers=0)"
    if cores is not None and workers > cores:
        # They also take turns with the training itself. One per core may be what costly batches
        # need: these would then be made in the training process.
        return _Cure(advice, change, Range(low=wait_ns // 2, high=wait_ns + wait_ns // CROWDED))
    return _Cure(advice, change, Range(low=0, high=wait_ns), sure=False)


def _every_core_fetches(workers: int, cores: int, wait_ns: int) -> _Cure:
    advice = (
        f"{workers} workers on {cores} cores are waited for: every core makes batches already, and "
        "neither more nor fewer workers make them sooner. Make __getitem__ and the collate "
        "function cheaper (decode or encode once, before training; keep tensors, index whole "
        "batches)."
    )
    return _Cure(advice, None, Range(low=0, high=wait_ns))


def _taking_turns(run: RunResults, wait_ns: int) -> _Cure:
    advice = (
        f"Training itself computes on all {run.cores} cores ({run.start.torch_threads} threads of "
        "torch), so workers would take turns with it and may slow it down more than they hide: "
        "make __getitem__ and the collate function cheaper (decode once, keep tensors, index "
        "whole batches). Or leave workers a core (torch.set_num_threads) and compare both runs."
    )
    return _Cure(advice, None, Range(low=0, high=wait_ns))


def _dividing(run: RunResults, step_ns: int, plan: CorePlan) -> _Cure:
    plural = "es" * (plan.num_workers > 1)
    advice = (
        f"Training itself computes on all {run.cores} cores ({run.start.torch_threads} threads of "
        "torch), and workers beside it would slow it down more than they hide. Divide the cores: "
        f"{plan.num_workers} worker process{plural} and torch.set_num_threads({plan.threads}). "
        "That is the change whose saving is given. To make batches cheaper saves up to the whole "
        "wait: move slow work out of __getitem__ and collate (decode once, keep tensors, index "
        "whole batches)."
    )
    change = (
        f"torch.set_num_threads({plan.threads})\n"
        f"DataLoader(..., num_workers={plan.num_workers}, persistent_workers=True)"
    )
    saving = Range(low=step_ns - plan.step_high_ns, high=step_ns - plan.step_low_ns)
    return _Cure(advice, change, saving)


def _reads_module(shared: str, wait_ns: int) -> _Cure:
    what = shared if shared.startswith("the ") else f"the module's {shared}"
    advice = (
        f"Leave num_workers at 0: the dataset reads {what} while it trains, and a worker process "
        "would have a copy of its own that training does not change. Make a batch cheaper here: "
        "operations on whole arrays, calls of a model for many samples at once."
    )
    return _Cure(advice, None, Range(low=0, high=wait_ns))


def _without_workers(loader: Loader | None, wait_ns: int) -> _Cure:
    advice = (
        "More workers would hardly hide this wait here: make __getitem__ and the collate function "
        "cheaper (decode once, keep tensors, index whole batches), or read from faster storage."
    )
    if loader is not None and loader.sampler:
        advice += f" {loader.sampler} runs in this process: time it first."
    return _Cure(advice, None, Range(low=0, high=wait_ns))
