"""Chooses the change of the data loader that shortens the wait for data most surely."""

from dataclasses import dataclass, replace
from enum import Enum

from lightning_gpuprof.analysis.run import worker_lines
from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.savings.cheaper_batches import (
    SAMPLE_NS,
    can_be_done_once,
    cheaper_batches,
    cheaper_in_workers,
    own_code,
)
from lightning_gpuprof.analysis.savings.hidden import Exposed, around
from lightning_gpuprof.analysis.savings.host_work import computes_on_all_cores
from lightning_gpuprof.analysis.savings.pipeline import Pipeline

HANDOVER_LOW_NS = 100_000
HANDOVER_HIGH_NS = 1_000_000
"""Receiving a ready batch from a worker costs the training process this much (docs/adr/0031)."""
MAX_WORKERS = 16
WHOLE_NS, WHOLE_NS_PER_BYTE = 700, 0.35
"""What a row, and each of its bytes, costs at most if rows are indexed together (docs/adr/0031)."""
MOST = 0.5
SAMPLER_LEFT = 0.1
"""The share that may remain of a sampler's time if it orders a whole epoch at once."""
BESIDE_NS = 1_500_000
"""Without workers, a step may lose this much in addition to the wait for them (docs/adr/0031)."""
CROWDED = 4
"""More workers than cores slow training down by up to a quarter of the wait, in addition to it."""
SURE_FRAC = 0.05
"""A change to no workers is sure if it saves at least this share of the step."""


class LoaderChange(str, Enum):
    """What to change."""

    ROWS = "rows"
    """Make batches in the training process, because samples are rows of tensors in memory."""
    WHOLE = "whole"
    """Index a whole batch at once, because samples are rows of tensors in memory."""
    SAMPLER = "sampler"
    """Make the sampler cheaper."""
    NO_WORKERS = "no_workers"
    """Make batches in the training process, because handing them over takes longer."""
    SMALLER = "smaller"
    """Hand over fewer bytes or tensors: workers have batches ready."""
    CHEAPER = "cheaper"
    """Make samples cheaper."""
    WORKERS = "workers"
    """Use more workers."""
    STORAGE = "storage"
    """Wait less for storage, or let more workers wait for it at the same time."""
    ASLEEP = "asleep"
    """Let more workers wait at the same time, for whatever they wait for as they make batches."""


class NoWorkers(str, Enum):
    """Why more workers are not proposed."""

    EVERY_CORE = "every_core"
    """There are as many workers as cores."""
    SHARED = "shared"
    """The dataset reads what training changes, which workers would not see."""
    BUSY = "busy"
    """Training computes on all cores."""
    LITTLE = "little"
    """They would save no more than they cost."""


@dataclass(frozen=True)
class LoaderPlan:
    """A change, and how much of a step it saves."""

    change: LoaderChange
    low_ns: int
    high_ns: int
    sure: bool = True
    """Whether the change is sure to help."""
    num_workers: int = 0
    """The number of workers to use, if the change is about that."""
    why: NoWorkers | None = None
    """Why the change is not more workers."""
    beyond_ns: int = 0
    """How much more than the wait it saves at most, as it takes work from cores that are waited
    for."""
    instead: "LoaderPlan | None" = None
    """The second best change."""


def loader_plan(run: RunResults, step_ns: int, wait_ns: int, lost: Exposed) -> LoaderPlan:
    """Choose the change for the largest part of the wait."""
    loader, parts, cores = run.start.loader, run.loader.wait, run.cores
    workers = (loader.num_workers or 0) if loader else 0
    sampler = parts.sampler_frac or 0.0
    if sampler >= MOST:
        low = round((1 - SAMPLER_LEFT) * sampler * lost.low_ns)
        return LoaderPlan(LoaderChange.SAMPLER, low, round(sampler * lost.high_ns))
    if loader is not None and loader.in_memory and not workers:
        return _whole_batches(run, lost)
    pipeline = Pipeline.of(run)
    if workers and _receiving_frac(run, wait_ns, pipeline) >= MOST:
        if not worker_lines.longer_here(run, wait_ns):
            return _no_workers(run, step_ns, lost, min(wait_ns, lost.high_ns))
        if run.loader.workers is not None and run.loader.workers.waiting_frac > MOST:
            return LoaderPlan(LoaderChange.SMALLER, 0, min(lost.high_ns, step_ns), sure=False)
    waited = 1.0 - sampler if not workers or parts.workers_frac is None else parts.workers_frac
    idle = _idle(run)
    if idle is not None:
        # A worker that waits uses no core, so the number of cores is no limit.
        more = _more_workers(run, step_ns, round(waited * wait_ns), lost, cores=MAX_WORKERS)
        low, number = (more.low_ns, more.num_workers) if more else (0, 0)
        high = round(waited * lost.high_ns)
        return LoaderPlan(idle, min(low, high), high, num_workers=number)
    cheaper = _cheaper(run, step_ns, wait_ns, lost, waited, pipeline)
    if loader is not None and loader.shares and not workers:
        return replace(cheaper, why=NoWorkers.SHARED)
    if workers and cores is not None and workers >= cores:
        return replace(cheaper, why=NoWorkers.EVERY_CORE)
    busy = computes_on_all_cores(run)
    if busy:
        return replace(cheaper, why=NoWorkers.BUSY)
    more = _more_workers(run, step_ns, round(waited * wait_ns), lost, cores=cores)
    if more is None:
        return replace(cheaper, why=NoWorkers.LITTLE if loader is not None else None)
    if busy is None:
        more = replace(more, low_ns=0)
    # Work of the user's own that is the same in every epoch need not be done again: workers would
    # only do it elsewhere. Random samples must be made anew, at best in less time.
    own = own_code(run)
    once = can_be_done_once(run) and cheaper.low_ns > 0
    if own is not None and (once or around(cheaper.low_ns)[0] > more.low_ns):
        return replace(cheaper, instead=more)
    return replace(more, instead=cheaper)


def _idle(run: RunResults) -> LoaderChange | None:
    """Return the change for processes that wait as they make batches; None if they compute."""
    if (worker_lines.storage_frac(run) or 0.0) >= MOST:
        return LoaderChange.STORAGE
    return LoaderChange.ASLEEP if (worker_lines.asleep_frac(run) or 0.0) >= MOST else None


def rows_in_memory(run: RunResults, lost: Exposed) -> LoaderPlan | None:
    """Return the saving of no workers if samples are rows in memory; None if there is none."""
    loader, samples = run.start.loader, run.batch_size
    if loader is None or not loader.in_memory or not loader.num_workers or samples is None:
        return None
    made_ns = round(SAMPLE_NS * samples)
    if lost.low_ns <= made_ns:
        return None
    return LoaderPlan(LoaderChange.ROWS, lost.low_ns - made_ns, lost.high_ns)


def _whole_batches(run: RunResults, lost: Exposed) -> LoaderPlan:
    """Return the change to batches that are indexed at once, which leaves copying their rows."""
    samples, num_bytes = run.batch_size, run.loader.batch_bytes
    if samples is None or num_bytes is None:
        return LoaderPlan(LoaderChange.WHOLE, 0, lost.high_ns)
    left_ns = round(WHOLE_NS * samples + WHOLE_NS_PER_BYTE * num_bytes)
    return LoaderPlan(LoaderChange.WHOLE, max(0, lost.low_ns - left_ns), lost.high_ns)


def _no_workers(run: RunResults, step_ns: int, lost: Exposed, most_ns: int) -> LoaderPlan:
    """Return the change to no workers, which saves the wait less the making of batches."""
    loader, made_ns = run.start.loader, worker_lines.made_at_most_ns(run)
    # More workers than cores also share the cores with training itself.
    crowded = bool(loader and run.cores is not None and (loader.num_workers or 0) > run.cores)
    more_ns = most_ns // CROWDED if crowded else 0
    if made_ns is None:
        low_ns, high_ns = most_ns // 2 if crowded else 0, min(step_ns, most_ns + more_ns)
        return LoaderPlan(LoaderChange.NO_WORKERS, low_ns, high_ns, sure=crowded)
    low_ns = max(0, lost.low_ns - around(made_ns)[1])
    least_ns = around(worker_lines.made_here_ns(run) or 0)[0]
    high_ns = max(low_ns, most_ns - least_ns + max(more_ns, 0 if run.on_gpu else BESIDE_NS))
    sure = low_ns >= SURE_FRAC * step_ns
    return LoaderPlan(LoaderChange.NO_WORKERS, low_ns, min(step_ns, high_ns), sure=sure)


def _receiving_frac(run: RunResults, wait_ns: int, pipeline: Pipeline | None) -> float:
    """Return the share of the wait that is receiving batches.

    A process that is about to receive a batch may wait for a core. If the user's own code in the
    workers keeps the cores busy, that wait is not the receiving's.
    """
    frac = run.loader.wait.receiving_frac or 0.0
    if pipeline is None or not wait_ns or own_code(run) is None:
        return frac
    return max(0.0, frac - pipeline.queued_ns / wait_ns)


def _cheaper(
    run: RunResults,
    step_ns: int,
    wait_ns: int,
    lost: Exposed,
    waited: float,
    pipeline: Pipeline | None,
) -> LoaderPlan:
    """Return the change to cheaper samples, which make up the share `waited` of the wait."""
    if pipeline is not None and pipeline.explains_step and not run.on_gpu:
        low_ns, high_ns = cheaper_in_workers(run, pipeline)
        beyond_ns = max(0, high_ns - wait_ns)
        return LoaderPlan(LoaderChange.CHEAPER, low_ns, high_ns, beyond_ns=beyond_ns)
    low_ns, high_ns = cheaper_batches(run, step_ns, wait_ns, lost)
    loader = run.start.loader
    if loader and loader.num_workers and run.loader.wait.workers_frac is None:
        # The wait includes receiving batches from workers, which remains.
        low_ns = min(low_ns, max(0, lost.low_ns - HANDOVER_HIGH_NS))
        high_ns = max(low_ns, high_ns - HANDOVER_LOW_NS)
    low_ns, high_ns = round(waited * low_ns), round(waited * high_ns)
    return LoaderPlan(LoaderChange.CHEAPER, low_ns, min(high_ns, step_ns))


def _more_workers(
    run: RunResults, step_ns: int, wait_ns: int, lost: Exposed, *, cores: int | None
) -> LoaderPlan | None:
    """Return the change to more workers; None if they may cost as much as they save."""
    loader = run.start.loader
    if loader is None or loader.num_workers is None or cores is None or cores < 2:
        return None
    # Several workers of an `IterableDataset` yield every sample several times, unless the dataset
    # divides its samples among them. A loader without workers does not show whether it does.
    single = loader.dataset_kind == "iterable" and not loader.num_workers
    plan = plan_workers(
        step_ns=step_ns,
        wait_ns=wait_ns,
        num_workers=loader.num_workers,
        cores=cores,
        most=1 if single else MAX_WORKERS,
    )
    high = min(lost.high_ns, step_ns - plan.step_low_ns)
    low = min(lost.low_ns, max(0, step_ns - plan.step_high_ns))
    if loader.num_workers and run.loader.wait.workers_frac is None:
        # More workers do not shorten receiving the batch.
        low, high = max(0, low - HANDOVER_HIGH_NS), high - HANDOVER_LOW_NS
    if low <= 0 or high <= 0:
        return None
    if loader.dataset_kind == "iterable" and loader.num_workers:
        low = 0  # there may be no more samples to divide among them
    return LoaderPlan(LoaderChange.WORKERS, min(low, high), high, num_workers=plan.num_workers)


@dataclass(frozen=True)
class WorkerPlan:
    """A number of workers, and the interval of the step time to expect with it."""

    num_workers: int
    step_low_ns: int
    step_high_ns: int


def plan_workers(
    *, step_ns: int, wait_ns: int, num_workers: int, cores: int, most: int = MAX_WORKERS
) -> WorkerPlan:
    """Return how many workers hide the fetching of batches, and how long a step takes with them.

    Without workers, the wait is the fetch itself; with `w` busy workers, making a batch takes `w`
    steps. At best, fetching is hidden behind the rest of the step as far as the cores suffice for
    both. At worst, it slows training down by its share of every core.

    >>> plan_workers(step_ns=10_000_000, wait_ns=6_000_000, num_workers=0, cores=4)
    WorkerPlan(num_workers=2, step_low_ns=4100000, step_high_ns=6500000)
    """
    fetch_ns = wait_ns if num_workers == 0 else num_workers * step_ns
    rest_ns = max(1, step_ns - wait_ns)
    # At least a worker more than now, because batches do not all take the same time.
    workers = min(max(-(-fetch_ns // rest_ns), num_workers + 1), most, cores)
    produced_ns = fetch_ns // workers
    added_ns, handover_low_ns, handover_high_ns = wait_ns, 0, 0
    if num_workers == 0:  # with workers, batches are handed over already
        added_ns, handover_low_ns, handover_high_ns = fetch_ns, HANDOVER_LOW_NS, HANDOVER_HIGH_NS
    least_ns = max(rest_ns, produced_ns, (rest_ns + fetch_ns) // cores)
    most_ns = max(rest_ns + added_ns // cores, produced_ns)
    return WorkerPlan(workers, least_ns + handover_low_ns, most_ns + handover_high_ns)
