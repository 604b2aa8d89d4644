"""Which change of the data loader shortens the wait for data most surely, and by how much."""

from dataclasses import dataclass, replace
from enum import Enum

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.worker_lines import keep_up, longer_here, made_here_ns
from lightning_gpuprof.analysis.savings.beside_workers import (
    handed_tensors,
    handover_high_ns,
    made_at_most_ns,
)
from lightning_gpuprof.analysis.savings.cheaper_batches import (
    SAMPLE_NS,
    cheaper_batches,
    own_code,
)
from lightning_gpuprof.analysis.savings.hidden import Exposed, around
from lightning_gpuprof.analysis.savings.host_work import computes_on_all_cores
from lightning_gpuprof.analysis.savings.input_pipeline import (
    HANDED_TENSORS,
    HANDOVER_LOW_NS,
    CorePlan,
    WorkerPlan,
    divide_cores,
    most_workers,
    plan_workers,
)

MOST = 0.5
SAMPLER_LEFT = 0.1
"""At most that much of a sampler's time is left once it orders an epoch instead of each batch."""
BESIDE_NS = 1_500_000
"""Without workers as much may go beside the wait for them (docs/adr/0031)."""
CROWDED = 4
"""More workers than cores cost training up to a quarter more than the wait."""
SURE_FRAC = 0.05


class LoaderChange(str, Enum):
    """What to change."""

    ROWS = "rows"
    """Make batches here: the samples are rows of tensors in memory."""
    SAMPLER = "sampler"
    NO_WORKERS = "no_workers"
    """Make batches here: handing them over takes longer."""
    SMALLER = "smaller"
    """Hand over fewer bytes or tensors: workers have batches ready."""
    CHEAPER = "cheaper"
    """Less work for each sample."""
    WORKERS = "workers"
    DIVIDE = "divide"
    """Divide the cores between workers and torch's threads."""


class NoWorkers(str, Enum):
    """Why more workers are not proposed."""

    EVERY_CORE = "every_core"
    SHARED = "shared"
    """The dataset reads what training changes."""
    BUSY = "busy"
    """Training computes on all cores."""
    LITTLE = "little"
    """They would hide no more than they cost."""
    BEHIND = "behind"
    """They are busy making other batches when one is taken."""


@dataclass(frozen=True)
class LoaderPlan:
    """A change, and what it saves per step.

    Args:
        change: What to change.
        low_ns: The least that it saves.
        high_ns: The most.
        sure: Whether it cannot make the step longer.
        num_workers: For `WORKERS` and `DIVIDE`.
        threads: Of torch, for `DIVIDE`.
        why: Why it is not more workers.
        instead: The other change that is open.
    """

    change: LoaderChange
    low_ns: int
    high_ns: int
    sure: bool = True
    num_workers: int = 0
    threads: int = 0
    why: NoWorkers | None = None
    instead: "LoaderPlan | None" = None


def loader_plan(run: RunResults, step_ns: int, wait_ns: int, lost: Exposed) -> LoaderPlan:
    """Choose the change for the largest part of the wait."""
    loader, parts, cores = run.start.loader, run.loader_wait, run.cores
    workers = (loader.num_workers or 0) if loader else 0
    sampler = parts.sampler_frac or 0.0
    if sampler >= MOST:
        low = round((1 - SAMPLER_LEFT) * sampler * lost.low_ns)
        return LoaderPlan(LoaderChange.SAMPLER, low, round(sampler * lost.high_ns))
    if workers and (parts.receiving_frac or 0.0) >= MOST:
        return _taken_over(run, step_ns, wait_ns, lost)
    waited = 1.0 - sampler if not workers or parts.workers_frac is None else parts.workers_frac
    cheaper = _cheaper(run, step_ns, lost, waited)
    if loader is not None and loader.shares and not workers:
        return replace(cheaper, why=NoWorkers.SHARED)
    if workers and cores is not None and workers >= cores:
        return replace(cheaper, why=NoWorkers.EVERY_CORE)
    fetch_ns = round(waited * wait_ns)
    if busy := computes_on_all_cores(run):
        shared = core_plan(run, step_ns, fetch_ns)
        if shared is None:
            return replace(cheaper, why=NoWorkers.BUSY)
        low, high = step_ns - shared.step_high_ns, step_ns - shared.step_low_ns
        divided = LoaderPlan(LoaderChange.DIVIDE, low, high)
        divided = replace(divided, num_workers=shared.num_workers, threads=shared.threads)
        return _surer(run, divided, cheaper)
    plan = _worker_plan(run, step_ns, fetch_ns)
    more = _with_workers(run, plan, step_ns, lost, unknown=busy is None) if plan else None
    return replace(cheaper, why=NoWorkers.LITTLE) if more is None else _surer(run, more, cheaper)


def rows_in_memory(run: RunResults, lost: Exposed) -> LoaderPlan | None:
    """Return what it saves to make batches without workers where they are rows in memory."""
    loader, samples = run.start.loader, run.batch_size
    if loader is None or not loader.in_memory or not loader.num_workers or samples is None:
        return None
    made_ns = round(SAMPLE_NS * samples)
    if lost.low_ns <= made_ns:
        return None
    return LoaderPlan(LoaderChange.ROWS, lost.low_ns - made_ns, lost.high_ns)


def core_plan(run: RunResults, step_ns: int, wait_ns: int) -> CorePlan | None:
    """Return how to divide cores that training uses all; None where that is no sure gain."""
    loader, cores = run.start.loader, run.cores
    if loader is None or loader.num_workers != 0 or cores is None or cores < 2:
        return None
    return divide_cores(
        fetch_ns=wait_ns, compute_ns=step_ns - wait_ns, cores=cores, most=most_workers(loader)
    )


def many_tensors(run: RunResults) -> int:
    """Return how many tensors a batch has that is handed over; 0 where few or not counted."""
    count = round(handed_tensors(run) or 0.0)
    return count if count > HANDED_TENSORS else 0


def _taken_over(run: RunResults, step_ns: int, wait_ns: int, lost: Exposed) -> LoaderPlan:
    """Return the change where batches are ready, or nearly, and taking them over takes long."""
    if not longer_here(run, wait_ns):
        return _no_workers(run, step_ns, lost, min(wait_ns, lost.high_ns))
    cheaper = _cheaper(run, step_ns, lost, 1.0)
    if not keep_up(run):
        return replace(cheaper, why=NoWorkers.BEHIND)
    return LoaderPlan(LoaderChange.SMALLER, 0, cheaper.high_ns, sure=False)


def _no_workers(run: RunResults, step_ns: int, lost: Exposed, most_ns: int) -> LoaderPlan:
    """Return the change to no workers: what goes is the wait, but for the making of batches."""
    loader, made_ns = run.start.loader, made_at_most_ns(run)
    # More workers than cores also take turns with the training itself.
    crowded = bool(loader and run.cores is not None and (loader.num_workers or 0) > run.cores)
    more_ns = most_ns // CROWDED if crowded else 0
    if made_ns is None:
        low_ns, high_ns = most_ns // 2 if crowded else 0, min(step_ns, most_ns + more_ns)
        return LoaderPlan(LoaderChange.NO_WORKERS, low_ns, high_ns, sure=crowded)
    low_ns = max(0, lost.low_ns - made_ns)
    least_ns = around(made_here_ns(run) or 0)[0]
    high_ns = max(low_ns, most_ns - least_ns + max(more_ns, 0 if run.on_gpu else BESIDE_NS))
    sure = low_ns >= SURE_FRAC * step_ns
    return LoaderPlan(LoaderChange.NO_WORKERS, low_ns, min(step_ns, high_ns), sure=sure)


def _cheaper(run: RunResults, step_ns: int, lost: Exposed, waited: float) -> LoaderPlan:
    """Return the change to cheaper samples; `waited` is the share of the wait that they are."""
    low_ns, high_ns = cheaper_batches(run, step_ns, lost)
    loader = run.start.loader
    if loader and loader.num_workers and (waited == 1.0 or run.loader_wait.workers_frac is None):
        # That holds the taking over of what workers made, which stays.
        low_ns = min(low_ns, max(0, lost.low_ns - handover_high_ns(run)))
        high_ns = max(low_ns, high_ns - HANDOVER_LOW_NS)
    if loader is not None and loader.sampler and run.loader_wait.sampler_frac is None:
        low_ns = 0  # a sampler of the program's own may be all of it
    low_ns, high_ns = round(waited * low_ns), round(waited * high_ns)
    return LoaderPlan(LoaderChange.CHEAPER, low_ns, min(high_ns, step_ns))


def _surer(run: RunResults, workers: LoaderPlan, cheaper: LoaderPlan) -> LoaderPlan:
    """Return the change that saves more at least, and the other beside it.

    A setting is tried in a minute: the user's code has to be seen in the wait to come before it.
    """
    if own_code(run) is not None and cheaper.low_ns > workers.low_ns:
        return replace(cheaper, instead=workers)
    return replace(workers, instead=cheaper)


def _worker_plan(run: RunResults, step_ns: int, wait_ns: int) -> WorkerPlan | None:
    loader, cores = run.start.loader, run.cores
    if loader is None or loader.num_workers is None or cores is None or cores < 2:
        return None
    return plan_workers(
        step_ns=step_ns,
        wait_ns=wait_ns,
        num_workers=loader.num_workers,
        cpu_count=cores,
        most=most_workers(loader),
    )


def _with_workers(
    run: RunResults, plan: WorkerPlan, step_ns: int, lost: Exposed, *, unknown: bool
) -> LoaderPlan | None:
    """Return the change to more workers; None where they may cost as much as they hide."""
    loader = run.start.loader
    now = loader.num_workers if loader else None
    high = min(lost.high_ns, step_ns - plan.step_low_ns)
    low = min(lost.low_ns, max(0, step_ns - plan.step_high_ns))
    if now and run.loader_wait.workers_frac is None:
        # Part of the wait is taking the batch over, which more workers do not shorten.
        low, high = max(0, low - handover_high_ns(run)), high - HANDOVER_LOW_NS
    if low <= 0 or high <= 0:
        return None
    unsampled = loader and loader.sampler and run.loader_wait.sampler_frac is None
    if unknown or unsampled or (loader and loader.dataset_kind == "iterable" and now):
        low = 0
    return LoaderPlan(LoaderChange.WORKERS, min(low, high), high, num_workers=plan.num_workers)
