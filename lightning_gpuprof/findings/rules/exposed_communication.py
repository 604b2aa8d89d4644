"""Ranks exchange gradients after the backward pass, when no computation hides it.

## Symptom
Gradients are still being exchanged when the backward pass is done.

## Why
An exchange can run while the backward pass computes. The part that does not adds to every step on
every rank.

## Fix
Exchange gradients less often, in fewer bytes (a bf16 hook), or in buckets of another size. If all
gradients fit one bucket of 25 MB, only accumulating gradients helps. With FSDP, gather weights
ahead.

```python
DDPStrategy()  # before
DDPStrategy(bucket_cap_mb=100, gradient_as_bucket_view=True)  # after
```

## How it is measured
`exposed_comm_ns` is the time from the last rank's last gradient until all gradients have been
exchanged, as the ranks timed it. Without such times, it is the time in a trace in which
communication kernels run with no computation beside them. The saving is a quarter to three quarters
of it.

## Limits
From a trace alone, or if the records of some ranks are missing ("up to"), waiting for a late rank
counts as communication.
"""

import re
from collections.abc import Sequence

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.settings import Settings, settings_of
from lightning_gpuprof.analysis.run.trace_facts import trace_facts
from lightning_gpuprof.analysis.trace_tables import KernelRow
from lightning_gpuprof.findings.grade import WARNING_FRAC
from lightning_gpuprof.findings.model import Effort, Finding, Horizon, Place, Range
from lightning_gpuprof.findings.rule import evidence_of, measured, rule
from lightning_gpuprof.units import duration, percent

LOW_FRAC, HIGH_FRAC = 0.25, 0.75
BUCKET_BYTES = 25 * 2**20
"""The default of DDP's `bucket_cap_mb`."""
MOSTLY = 0.5
_SHARDED = re.compile(r"all_?gather|reduce_?scatter|send_?recv|all_?to_?all", re.IGNORECASE)
"""Matches kernels that exchange something other than the gradients of DDP."""
_SHARDING = ("FSDP", "DeepSpeed", "ModelParallel")
"""Strategies that gather weights."""
DDP = (
    "Exchange gradients less often (accumulate_grad_batches), smaller (a bf16 hook), or in "
    "other bucket sizes, so that the backward pass hides it."
)
ONE_BUCKET = (
    "All gradients fit one DDP bucket, so other bucket sizes do not help: accumulate gradients "
    "over several batches."
)
SHARDS = (
    "The strategy gathers shards of weights: prefetch them "
    "(FSDPStrategy(forward_prefetch=True)), in larger pieces, or shard less (SHARD_GRAD_OP)."
)
GATHERED = (
    "Most of it is not gradients (SyncBatchNorm, self.all_gather, sharded embeddings): gather once "
    "in many steps, or use plain BatchNorm where a rank's batch is large."
)
LACKING = (
    "Records of some ranks are missing here, so part of this may be waiting for a late rank. Copy "
    "their record files beside these first. If the finding stays: "
)
EFFORT = Effort(Horizon.MEDIUM, "settings of the strategy, tried one by one", "none to the model")
ACCUMULATE_EFFORT = Effort(Horizon.QUICK, "one argument of the Trainer", "a larger batch")


@rule(id="exposed-communication", needs=("training", "waits or kernels"), effort=EFFORT)
def judge(run: RunResults) -> Finding | None:
    """Return the finding about communication that no computation hides."""
    if run.start.world_size < 2:
        return None
    facts, step_ns = trace_facts(run), measured(run.step_ns)
    traced = facts.device_step if facts else None
    cost = traced.exposed_comm_ns if traced else None
    timed_ns = run.ranks.waits.exchange_ns if run.ranks.waits else run.ranks.exchange_at_most_ns
    cost = cost if timed_ns is None else timed_ns
    if cost is None or cost < WARNING_FRAC * step_ns:
        return None
    kernels = facts.analysis.kernels if facts else ()
    rows = [row for row in kernels if row.category == "communication"]
    settings = settings_of(run.start)
    advice, change, effort = _advice(settings, rows)
    sure, up_to = LOW_FRAC, ""
    if run.lacks_ranks:
        sure, up_to, advice, change = 0, "Up to ", LACKING + advice, None
    saving = Range(low=round(sure * cost), high=min(step_ns, round(HIGH_FRAC * cost)))
    shards = settings.strategy.startswith(_SHARDING)
    if shards:  # the weights may be gathered ahead already
        saving = Range(low=0, high=round(min(step_ns, cost)))
    return Finding(
        title=f"{up_to}{duration(cost)} of each step ({percent(cost / step_ns)}) is exposed "
        "communication",
        advice=advice,
        evidence=evidence_of(
            exposed_comm_ns=round(cost), comm_ns=round(traced.comm_ns) if traced else None
        ),
        saving_ns=saving,
        cause_ns=Range(round(cost), round(cost)),
        confidence=0.5 if shards or run.lacks_ranks else 0.6,
        places=tuple(Place(kernel=row.name, rank=run.start.rank) for row in rows[:3]),
        change=change,
        effort=effort,
    )


def _advice(settings: Settings, rows: Sequence[KernelRow]) -> tuple[str, str | None, Effort]:
    """Return the advice, the change as code, and what it takes."""
    if settings.strategy.startswith(_SHARDING):
        return SHARDS, None, EFFORT
    gathered_ns = sum(row.total_ns for row in rows if _SHARDED.search(row.name))
    if gathered_ns > MOSTLY * sum(row.total_ns for row in rows):
        return GATHERED, None, EFFORT
    if 0 < settings.parameter_bytes <= BUCKET_BYTES:
        return ONE_BUCKET, "Trainer(accumulate_grad_batches=4)", ACCUMULATE_EFFORT
    return DDP, "DDPStrategy(bucket_cap_mb=100, gradient_as_bucket_view=True)", EFFORT
