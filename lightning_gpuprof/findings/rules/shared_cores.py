"""Other programs use the cores that the run computes on.

## What it measures
`queued_ns`: how long of each step, on average, the training thread was ready and waited for a core,
by the kernel's account of it (`schedstat`), from the beginning of training to its end;
`foreign_cores_count`: how many of the cores that the run may use programs used that are none of its
processes (`/proc/stat`, less what its processes and their children computed).

## Why it matters
Torch's threads share each operator's work and wait for the last of them. Where another program has
one of their cores for a while, all of them stand still: on two cores one busy program made a step
of 31 ms take 97. Times that were measured beside others say little of what a change saves.

## What to do
Stop the others, or train where they are not: reserve cores (`srun --exclusive`,
`--cpus-per-task`, a container's `--cpuset-cpus`). Where they have to stay, leave them cores: with
one thread of torch's instead of two the same step took 56 ms beside the same program.

## Thresholds
`MIN_FOREIGN` (`records/core_use.py`): a machine that does nothing else still has daemons. The
saving is what is waited, a fifth more or less (`savings/hidden.py`): with one thread a step took
that much longer (2.2 and 77 ms of 6.5 and 126 on two cores, two and four programs). With several,
what the others of torch's wait comes beside it in part, as all wait for all: 16 to 163 ms were
waited by the training thread, as much again by the other, and 28 to 288 were lost. Where the run
has loaders or ranks that take cores too, others have the share of it that they have in what is
computed beside this process. On a GPU it is lost in steps that wait for the host or for data alone.
Severity: the common scale (`findings/grade.py`).
"""

from math import ceil

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.savings.hidden import around, held_by_device
from lightning_gpuprof.findings.grade import grade
from lightning_gpuprof.findings.model import Abstained, Effort, Finding, Horizon, Range
from lightning_gpuprof.records.core_use import MIN_FOREIGN, CoreUse, core_use_noted
from lightning_gpuprof.units import duration, percent

ID = "shared-cores"
EXPLAINS = ("step-time-jitter",)
"""A step from which a core is taken is a spike."""
EFFORT = Effort(Horizon.QUICK, "another program stopped, or cores reserved", "none to the model")


def evaluate(run: RunResults) -> Finding | Abstained | None:
    """Return a finding where other programs make the training thread wait for a core."""
    use, step_ns = core_use_noted(run.notes), run.step_ns
    if use is None or step_ns is None:
        return Abstained(ID, "no account of who used the cores (Linux alone, to training's end)")
    if not use.foreign_share or not use.queued_ns:
        return None
    share = use.foreign_share if _has_company(run) else 1.0
    low_ns, beside_ns = (
        round(share * min(1.0, ns / max(1, use.wall_ns)) * step_ns)
        for ns in (use.queued_ns, use.others_queued_ns)
    )
    low_ns, high_ns = around(low_ns, step_ns)
    if run.start.torch_threads != 1:
        high_ns = min(step_ns, max(high_ns, low_ns + beside_ns))
    if run.on_gpu:
        free = 1.0 - held_by_device(run) if run.device_time else None
        low_ns = 0 if free is None else round(free * low_ns)
        high_ns = high_ns if free is None else round(free * high_ns)
    saving = Range(low=low_ns, high=high_ns)
    queued_ns = round(use.queued_ns / max(1, use.wall_ns) * step_ns)
    return Finding(
        id=ID,
        severity=grade(saving, step_ns),
        title=f"Other programs use {use.foreign_cores:.2g} of the {use.cores} cores: the training "
        f"thread waits {duration(queued_ns)} of each step ({percent(queued_ns / step_ns)}) for one",
        advice=f"Stop them, or reserve cores for the run{_named(use)}. If they have to stay, leave "
        "them cores: one thread of torch that has none holds all the others up.",
        evidence={
            "queued_ns": queued_ns,
            "queued_frac": queued_ns / step_ns,
            "foreign_cores_count": use.foreign_cores,
            "loader_cores_count": use.family_cores,
            "stolen_cores_count": use.stolen_cores,
            "cores_count": use.cores,
            "step_ns": step_ns,
        },
        saving_ns=saving,
        confidence=0.8,
        change=_change(run, use),
        explains=EXPLAINS,
    )


def _has_company(run: RunResults) -> bool:
    """Tell whether the run has processes that compute beside this one: loaders, other ranks."""
    workers = None if run.start.loader is None else run.start.loader.num_workers
    return run.start.world_size > 1 or workers != 0


def _named(use: CoreUse) -> str:
    names = [repr(one.name) for one in use.programs if one.cpu_ns >= MIN_FOREIGN * use.wall_ns]
    return f" (at the end ran: {', '.join(names)})" if names else ""


def _change(run: RunResults, use: CoreUse) -> str | None:
    free = max(1, use.cores - ceil(use.foreign_cores - MIN_FOREIGN))
    threads = run.start.torch_threads
    if threads is None or threads <= free:
        return None
    return f"torch.set_num_threads({free})  # until the others are gone: now {threads}"
