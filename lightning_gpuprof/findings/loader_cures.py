"""Which change to propose for a wait for data, and what it saves."""

from dataclasses import replace

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.worker_lines import (
    batch_lines,
    keep_up,
    longer_here,
    made_in_ns,
)
from lightning_gpuprof.analysis.savings.beside_workers import (
    both,
    fewer_bytes,
    handover_high_ns,
    turns_ns,
)
from lightning_gpuprof.analysis.savings.cheaper_batches import (
    cheaper_batches,
    draws,
    own_code,
)
from lightning_gpuprof.analysis.savings.hidden import Exposed
from lightning_gpuprof.analysis.savings.host_work import computes_on_all_cores
from lightning_gpuprof.analysis.savings.input_pipeline import (
    HANDOVER_LOW_NS,
    CorePlan,
    WorkerPlan,
    divide_cores,
    most_workers,
    plan_workers,
)
from lightning_gpuprof.findings.handover_cures import (
    answered_late,
    hand_over_less,
    large_bytes,
    send_less,
)
from lightning_gpuprof.findings.loader_operations import operations, told
from lightning_gpuprof.findings.model import Cure, Range
from lightning_gpuprof.findings.worker_places import in_workers, many_tensors, processes
from lightning_gpuprof.records.schema import Loader
from lightning_gpuprof.units import duration, percent, size, spread

MOST = 0.5
SAMPLER_LEFT = 0.1
"""At most that much of a sampler's time is left once it orders an epoch instead of each batch."""
_ONCE = (
    "Make __getitem__ and the collate function cheaper: decode or encode once, before training, "
    "and keep tensors; index whole batches instead of samples."
)
_SOME_DRAWN = (
    " What is random (augmentation) cannot be done once: do it for a whole batch in one operation "
    "on tensors."
)
_DRAWN = (
    "The code draws at random, so its result cannot be kept: draw for a whole batch at once, and "
    "apply that in one operation on tensors, in the collate function or, on the device, in "
    "on_after_batch_transfer. What comes before it, such as decoding, can be done once."
)
SHARDING = """
# in the dataset's __iter__, before anything is read, or each worker yields every sample:
info = torch.utils.data.get_worker_info()
if info is not None:
    files = files[info.id :: info.num_workers]"""


def choose_cure(run: RunResults, step_ns: int, wait_ns: int, lost: Exposed) -> Cure:
    """Choose the change for the largest part of the wait, and what it saves."""
    loader, parts, cores = run.start.loader, run.loader_wait, run.cores
    workers = loader.num_workers if loader else None
    sampler, most_ns = parts.sampler_frac or 0.0, min(wait_ns, lost.high_ns)
    if sampler >= MOST:
        return _quicker_sampler(loader, sampler, lost)
    receiving = parts.receiving_frac or 0.0
    if workers and receiving >= MOST:
        if longer_here(run, wait_ns):
            cheaper = _cheaper(run, step_ns, lost, 1.0)
            if keep_up(run):
                return send_less(run, step_ns, receiving, lost, cheaper)
            return replace(cheaper, advice=f"{cheaper.advice} {answered_late(run, receiving)}")
        return hand_over_less(run, step_ns, receiving, lost, most_ns)
    waited = 1.0 - sampler if not workers or parts.workers_frac is None else parts.workers_frac
    cheaper = _cheaper(run, step_ns, lost, waited)
    if loader is not None and loader.shares and not workers:
        return replace(cheaper, advice=f"{_reads_module(loader.shares)} {cheaper.advice}")
    if workers and cores is not None and workers >= cores:
        return replace(cheaper, advice=f"{_every_core_fetches(workers, cores)} {cheaper.advice}")
    busy = computes_on_all_cores(run)
    if busy:
        shared = core_plan(run, step_ns, round(waited * wait_ns))
        if shared is None:
            return replace(cheaper, advice=f"{_taking_turns(run)} {cheaper.advice}")
        return _surer(run, _dividing(run, step_ns, shared), cheaper)
    plan = _plan(run, step_ns, round(waited * wait_ns))
    more = None
    if plan is not None:
        more = _with_workers(run, plan, step_ns, lost, most_ns, busy=busy)
    if more is None:
        why = "More workers would hardly hide this wait here."
        return replace(cheaper, advice=f"{why} {cheaper.advice}")
    return _surer(run, more, cheaper)


def core_plan(run: RunResults, step_ns: int, wait_ns: int) -> CorePlan | None:
    """Return how to divide cores that training uses all; None where that is no sure gain."""
    loader, cores = run.start.loader, run.cores
    if loader is None or loader.num_workers != 0 or cores is None or cores < 2:
        return None
    return divide_cores(
        fetch_ns=wait_ns, compute_ns=step_ns - wait_ns, cores=cores, most=most_workers(loader)
    )


def _surer(run: RunResults, workers: Cure, cheaper: Cure) -> Cure:
    """Return the change that saves more at least, and name the other with what it saves.

    A setting is tried in a minute: the user's code has to be seen in the wait to come before it.
    """
    if own_code(run) is not None and cheaper.saving.low > workers.saving.low:
        saved = spread(workers.saving.low, workers.saving.high)
        setting, *sharing = (workers.change or "").split(SHARDING)
        pasted = setting.replace("\n", " and ")
        if sharing:
            pasted += ", with files shared out among workers (get_worker_info)"
        return replace(cheaper, advice=f"{cheaper.advice} Or {pasted}: saves {saved}.")
    saved = spread(cheaper.saving.low, cheaper.saving.high)
    instead = f"Instead, cheaper samples save {saved}: {cheaper.advice}"
    return replace(workers, advice=f"{workers.advice} {instead}")


def _cheaper(run: RunResults, step_ns: int, lost: Exposed, waited: float) -> Cure:
    """Return the change to cheaper samples; `waited` is the share of the wait that they are.

    Where that holds the taking over of what workers made, which stays, it is all of the wait or
    was not measured.
    """
    low_ns, high_ns = cheaper_batches(run, step_ns, lost)
    loader, own = run.start.loader, own_code(run)
    if loader and loader.num_workers and (waited == 1.0 or run.loader_wait.workers_frac is None):
        low_ns = min(low_ns, max(0, lost.low_ns - handover_high_ns(run)))
        high_ns = max(low_ns, high_ns - HANDOVER_LOW_NS)
    advice = _less_work(run)
    if own is not None:
        what = "the workers' time" if in_workers(run) else "the wait"
        is_told = ":" in own.function and own.function in advice
        above = "" if is_told else f", above all {own.function}"
        advice = f"Most of {what} is your own code{above}. {advice}"
    advice = f"{advice} {in_workers(run)}".strip()
    if loader is not None and loader.sampler and run.loader_wait.sampler_frac is None:
        advice += f" {loader.sampler} runs in the training process: time it first."
        low_ns = 0
    many = many_tensors(run)
    most = handover_high_ns(run) >= MOST * lost.low_ns
    advice = f"{many} {advice}" if many and most else f"{advice} {many}".strip()
    low_ns, high_ns = round(waited * low_ns), round(waited * high_ns)
    high_ns += turns_ns(run, step_ns - lost.high_ns)
    if large := large_bytes(run):
        # Nothing of it is sure: cheaper samples need not be smaller.
        high_ns = both((low_ns, high_ns), (0, fewer_bytes(run, large).high_ns))[1]
        advice += (
            f" Batches are of {size(large)}, which this process reads and frees as well: hand "
            "over fewer bytes, such as crops, or uint8 for float32."
        )
    return Cure(advice, None, Range(low=low_ns, high=min(high_ns, step_ns)))


def _less_work(run: RunResults) -> str:
    """Return what to do about the operations that were seen; what may help where they are few."""
    seen, drawn_frac = operations(batch_lines(run)), draws(run)
    of = "the workers' time" if in_workers(run) else "the wait"
    if drawn_frac >= MOST:
        usual = _DRAWN
    else:
        usual = _ONCE + (_SOME_DRAWN if drawn_frac else "")
    if sum(one.frac for one in seen) >= MOST:
        return told(seen, of) + (_SOME_DRAWN if drawn_frac else "")
    return f"{told(seen, of)} {usual}".strip()


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


def _with_workers(
    run: RunResults,
    plan: WorkerPlan,
    step_ns: int,
    lost: Exposed,
    most_ns: int,
    *,
    busy: bool | None,
) -> Cure | None:
    """Return the change to more workers; None where they may cost as much as they hide."""
    loader = run.start.loader
    now = loader.num_workers if loader else None
    high = min(most_ns, step_ns - plan.step_low_ns)
    low = min(lost.low_ns, max(0, step_ns - plan.step_high_ns))
    if now and run.loader_wait.workers_frac is None:
        # Part of the wait is taking the batch over, which more workers do not shorten.
        low, high = max(0, low - handover_high_ns(run)), high - HANDOVER_LOW_NS
    if low <= 0 or high <= 0:
        # Handing a batch over may cost as much as making it here.
        return None
    if _may_need_more_than_workers(run) or busy is None:
        low = 0
    iterable = loader is not None and loader.dataset_kind == "iterable"
    seen_ns, most = made_in_ns(run) if now else None, "at most " if now else ""
    takes = f"about {duration(seen_ns)}" if seen_ns else f"{most}{duration(plan.fetch_ns)}"
    advice = (
        f"Make batches in {processes(plan.num_workers)} instead of {now or 'the training process'}"
        f": one batch takes {takes}."
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
    return Cure(advice, change, Range(low=min(low, high), high=high))


def _may_need_more_than_workers(run: RunResults) -> bool:
    loader = run.start.loader
    unknown = run.loader_wait.sampler_frac is None
    return loader is not None and (
        (loader.dataset_kind == "iterable" and bool(loader.num_workers))
        or (bool(loader.sampler) and unknown)
    )


def _quicker_sampler(loader: Loader | None, frac: float, lost: Exposed) -> Cure:
    name = (loader.sampler if loader else None) or "The sampler"
    advice = (
        f"{name} takes {percent(frac)} of the wait. It runs in the training process, so no number "
        "of workers helps: order a whole epoch at once instead of each batch, with tensor "
        "operations instead of loops."
    )
    saving = Range(
        low=round((1 - SAMPLER_LEFT) * frac * lost.low_ns), high=round(frac * lost.high_ns)
    )
    return Cure(advice, None, saving)


def _every_core_fetches(workers: int, cores: int) -> str:
    return (
        f"{workers} workers on {cores} cores are waited for: every core makes batches already, and "
        "neither more nor fewer workers make them sooner."
    )


def _reads_module(shared: str) -> str:
    what = shared if shared.startswith("the ") else f"the module's {shared}"
    return (
        f"Leave num_workers at 0: the dataset reads {what} while it trains, and a worker process "
        "would have a copy of its own that training does not change."
    )


def _taking_turns(run: RunResults) -> str:
    if run.cores == 1:
        busy = "Training itself keeps its one core busy"
    else:
        busy = (
            f"Training itself computes on all {run.cores} cores "
            f"({run.start.torch_threads} threads of torch)"
        )
    loader = run.start.loader
    more = "more workers" if loader is not None and loader.num_workers else "workers"
    return f"{busy}: {more} may slow it down more than they hide."


def _dividing(run: RunResults, step_ns: int, plan: CorePlan) -> Cure:
    plural = "es" * (plan.num_workers > 1)
    advice = (
        f"Training itself computes on all {run.cores} cores ({run.start.torch_threads} threads of "
        "torch), and workers beside it would slow it down more than they hide. Divide the cores: "
        f"{plan.num_workers} worker process{plural} and torch.set_num_threads({plan.threads})."
    )
    change = (
        f"torch.set_num_threads({plan.threads})\n"
        f"DataLoader(..., num_workers={plan.num_workers}, persistent_workers=True)"
    )
    saving = Range(low=step_ns - plan.step_high_ns, high=step_ns - plan.step_low_ns)
    return Cure(advice, change, saving)
