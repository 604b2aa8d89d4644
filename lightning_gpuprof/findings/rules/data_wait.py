"""The training loop waits for the next batch.

## What it measures
`data_wait_ns`: mean time per steady step that the loop spends asking its data fetcher for the next
batch, on the host clock, without the extra wait at the start of an epoch (that is
`worker-startup`). The copy to the device is not in it.

With workers, the lines that take the time are those of samples of the first two worker processes'
main threads; in `worker_waiting_frac` of these samples a worker had nothing to do.
`worker_batch_ns` is what a worker takes for a batch: as long as all workers are at work in a step,
by the share of samples in which they were.

## Why it matters
The host queues no work while it waits, so a device that has caught up stands idle. With
`num_workers=0` the wait is the whole making of a batch, in the training process itself.

## What to do
Move slow work out of `__getitem__` and the collate function: decode or encode once, before
training; keep tensors, index whole batches. What is drawn at random (augmentation) cannot be done
once, but for a whole batch in one operation: at least half of it is then saved. What samples show
to be a fifth of the wait and more has its own advice (`findings/loader_operations.py`: copies,
dates, pictures, files, tensors that grow), the longest first; the general one follows where these
are less than half. Or let worker
processes make the batches (`num_workers`, with `persistent_workers=True`), but fewer than there are
cores, with fewer threads for torch where it computes on all of them. The saving is that of the
change named first; where both are open, the other is told with its own. Workers cannot help where
every core fetches already, where a batch costs less than handing it over, and with a slow sampler
or batch sampler, which runs in the training process. A dataset that reads the model, or a replay
buffer that training fills, stays in the training process: a worker has a copy. An `IterableDataset`
must share its samples out among its workers (`get_worker_info`): without that each of them yields
all.

## Thresholds
The saving is modelled, not taken to be the whole wait: with workers a step takes at best the larger
of its other work, `fetch / workers` and what all cores together need, at worst fetching competes
with training for the cores; on a GPU, only the device's idle time during the wait counts
(`savings/input_pipeline.py`, `savings/hidden.py`). Cheaper samples save at most all of the wait; at
least, where samples of the stack show that it is mostly the user's own code, that code but for a
tenth, else half of it; what the cheapest samples take stays (`savings/cheaper_batches.py`). Of
workers that are waited for it is that share of the step, not of the wait: they work all through it,
or as much of it as they were seen to. Cheaper samples
come first where they save more at least and the code was seen, for a setting is tried sooner
(`findings/loader_cures.py`).

The wait is measured in three parts, and the change is for the largest: `MOST` of it in the sampler,
which runs in the training process with any number of workers; in taking batches over from workers,
where more of them would not help; or in making batches. What a batch takes to make is not known
with workers that keep up and were not looked at, so to do without them is told as `info`, unless
there are more of them than cores (`CROWDED`), or the samples are rows of a `TensorDataset`: a row
takes `SAMPLE_NS` (`savings/cheaper_batches.py`), so the rest of the wait is saved (with the start
of the workers, which `worker-startup` tells). An `IterableDataset` read in the training process
goes to one worker, which needs no sharing out and keeps the order; one that has workers, or a
sampler of your own where its part was not measured, may leave more of them nothing to do: the low
bound is 0. Where torch computes on every core (`MOSTLY` in `savings/host_work.py`), workers beside
it make the step longer: the cores are divided between workers and torch's threads where that is a
sure gain (`divide_cores`), else none are proposed. Workers on every core that are waited for are
not told to be fewer: every core makes batches already. Nor are workers told to go whose batch takes
longer to make than it is waited for, even if they had as much less of the cores as there are more
processes than cores (`longer_here`): a busy worker hands a batch over between the making of others,
and what makes batches cheaper is told. Where workers wait for work most of the time (`keep_up`) the
wait is the handing over alone: of a batch of up to `HANDED_BYTES` that takes what it takes and is
`info`; of larger ones all but that goes with fewer bytes, and what the training process takes to
free them (in `other`) and to read them first (`savings/beside_workers.py`). Where there are more
processes than cores, cheaper samples also save at most what workers took of training's core, by the
share of samples in which they were at work; what taking over a ready batch takes stays. To do
without workers saves the wait less what they were seen to take for a batch, `MOST_UNSEEN` samples
at most where they were never seen at it, and up to `BESIDE_NS` beside the wait, or as much of it as
goes where they are more than cores (`findings/handover_cures.py`). Severity: the common scale
(`findings/grade.py`), and `info` where nothing is sure to be saved and what can be counted on is
below `WARNING_FRAC`.
"""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.savings.hidden import exposed
from lightning_gpuprof.findings.grade import WARNING_FRAC, grade
from lightning_gpuprof.findings.handover_cures import without_workers
from lightning_gpuprof.findings.loader_cures import choose_cure
from lightning_gpuprof.findings.model import (
    Abstained,
    Cure,
    Effort,
    Finding,
    Horizon,
    Severity,
    Where,
)
from lightning_gpuprof.findings.worker_places import seen_in_workers
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.units import duration, percent

ID = "data-wait"
EFFORT = Effort(
    Horizon.QUICK,
    "one or two arguments of the DataLoader, or work done once instead of per sample",
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
    most_ns = min(wait_ns, lost.high_ns)
    cure = without_workers(run, lost)
    if cure is None and most_ns < WARNING_FRAC * step_ns:
        return None
    cure = cure or choose_cure(run, step_ns, wait_ns, lost)
    workers = run.start.loader.num_workers if run.start.loader else None
    return Finding(
        id=ID,
        severity=_severity(cure, step_ns),
        title=f"{percent(wait_ns / step_ns)} of each step ({duration(wait_ns)}) is spent waiting "
        "for data",
        advice=cure.advice,
        evidence=_evidence(run, step_ns, wait_ns),
        saving_ns=cure.saving,
        confidence=0.9 if lost.basis != "unknown" and workers is not None else 0.6,
        where=(Where(phase=Phase.DATA_WAIT.value),),
        change=cure.change,
    )


def _severity(cure: Cure, step_ns: int) -> Severity:
    counted_on = cure.saving.counted_on >= WARNING_FRAC * step_ns
    sure = cure.sure and (cure.saving.low > 0 or counted_on)
    return grade(cure.saving, step_ns) if sure else Severity.INFO


def _evidence(run: RunResults, step_ns: int, wait_ns: int) -> dict[str, int | float]:
    workers = run.start.loader.num_workers if run.start.loader else None
    found: dict[str, int | float | None] = {
        "data_wait_ns": wait_ns,
        "data_wait_frac": wait_ns / step_ns,
        "step_ns": step_ns,
        "num_workers_count": workers,
        "cpu_count": run.cores,
        "sampler_frac": run.loader_wait.sampler_frac,
        "receiving_frac": run.loader_wait.receiving_frac,
        "sample_ns": round(wait_ns / run.batch_size) if run.batch_size and not workers else None,
    }
    known = {name: value for name, value in found.items() if value is not None}
    return {**known, **seen_in_workers(run)}
