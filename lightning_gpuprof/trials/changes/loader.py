"""The training loader: its workers, batches made ahead, page-locked memory, and no wait at all."""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.findings.check_figures import suggested_workers
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.trials.change import Change, Values

NO_LOADER = "its batches come from no DataLoader"
LITTLE_FRAC = 0.01
BATCHES, MOST_BYTES = 16, 2**30


def _workers(run: RunResults) -> Values:
    loader, cores, wait = run.start.loader, run.cores or 1, run.per_step(Phase.DATA_WAIT)
    if loader is None or loader.num_workers is None:
        return NO_LOADER
    if loader.shares:
        return f"the data set reads {loader.shares}, of which each worker would have a copy"
    now = loader.num_workers
    if not now and (wait is None or wait.frac < LITTLE_FRAC):
        return f"the wait for data is {wait.frac if wait else 0.0:.1%} of a step"
    suggested = suggested_workers(run) or 0
    ladder = {0, suggested, cores, *(2**power for power in range(8) if 2**power <= cores)}
    if now == 0 or loader.persistent_workers:
        ladder.discard(now)  # else as many that stay from epoch to epoch are a change
    return sorted(ladder, key=lambda count: (count != suggested, count))


def _prefetch(run: RunResults) -> Values:
    loader = run.start.loader
    if loader is None or not loader.num_workers:
        return "there are no workers that could make batches ahead"
    return [4 * (loader.prefetch_factor or 2)]


def _pin(run: RunResults) -> Values:
    if not run.on_gpu:
        return "there is no GPU to copy batches to"
    if run.start.loader is None or run.start.loader.pin_memory is None:
        return NO_LOADER
    return "it is on" if run.start.loader.pin_memory else [True]


def _cached(run: RunResults) -> Values:
    fitting = MOST_BYTES // max(1, run.batch_bytes or 1)
    return [max(2, min(BATCHES, fitting))] if run.start.loader else NO_LOADER


NUM_WORKERS = Change(
    name="num_workers",
    values=_workers,
    write=lambda count, run: {
        "DataLoader": {"num_workers": count, "persistent_workers": count > 0}
    },
    findings=("data-wait", "worker-startup", "cpu-quota"),
    redraws=True,
)
PREFETCH_FACTOR = Change(
    name="prefetch_factor",
    values=_prefetch,
    place="DataLoader",
    phases=(Phase.DATA_WAIT,),
    findings=("data-wait", "step-time-jitter"),
)
PIN_MEMORY = Change(
    name="pin_memory",
    values=_pin,
    place="DataLoader",
    phases=(Phase.DATA_WAIT, Phase.HOST_TO_DEVICE),
    findings=("slow-host-to-device-copy",),
)
CACHED_BATCHES = Change(
    name="cached_batches",
    values=_cached,
    write=lambda value, run: {"cached_batches": [value]},
    phases=(Phase.DATA_WAIT,),
    alters="it trains on its first batches only",
    ceiling=True,
)
