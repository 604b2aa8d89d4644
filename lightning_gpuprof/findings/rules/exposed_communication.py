"""The device waits for other ranks: communication that nothing overlaps.

## What it measures
`exposed_comm_ns`: time per step from the last rank's last gradient until all gradients have been
exchanged, as the ranks timed it: to wait for a late rank is not among it (see straggler-rank).
Where that was not timed on two ranks or more, from a trace: time in which communication kernels ran
and nothing computed, waiting included.

## Why it matters
Gradients can be exchanged while the backward pass still computes; what is exposed adds to every
step on every rank.

## What to do
Exchange less often (`accumulate_grad_batches` skips the exchange in between), less
(`bf16` gradients: `ddp_comm_hook`), in larger buckets (`bucket_cap_mb`), or with
`gradient_as_bucket_view=True`; shard with FSDP where the model is large. Of a model whose gradients
fit DDP's one bucket (25 MB), buckets change nothing: accumulate. What is gathered or sent to and
fro (FSDP's weights, rows of sharded embeddings, statistics of `SyncBatchNorm`, `self.all_gather`)
is no sum of gradients, and DDP's settings do not reach it: have weights gathered ahead
(`FSDPStrategy(forward_prefetch=True)`), the rest more seldom.

## Thresholds
`WARNING_FRAC` of the step. Weights are sharded where the run's strategy says so; where kernels that
gather or send take most of the time in communication, it is not DDP's gradients. `LOW_FRAC`,
`HIGH_FRAC`: the last bucket cannot be hidden, so a quarter stays at least in the high bound, and
three quarters in the low one; gradients accumulated over four batches are exchanged a quarter as
often. Sharded weights that are gathered ahead save between nothing (they may be ahead already) and
the exposed time, less the `ENDS` of a step: its first gather has nothing before it, its last
exchange nothing behind it. Nor can they hide behind more than there is: what the device computes
with no communication beside it (`compute_alone_ns`). Severity: the common scale
(`findings/grade.py`).
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.trace_facts import TraceFacts, trace_facts
from lightning_gpuprof.findings.grade import WARNING_FRAC, grade
from lightning_gpuprof.findings.model import Abstained, Effort, Finding, Horizon, Range, Where
from lightning_gpuprof.units import duration, percent

ID = "exposed-communication"
EFFORT = Effort(Horizon.MEDIUM, "settings of the strategy, tried one by one", "a larger batch")
LOW_FRAC, HIGH_FRAC = 0.25, 0.75
ENDS = 2
"""Calls of a step that nothing can hide where weights are sharded."""
BUCKET_BYTES = 25 * 2**20
"""DDP's own `bucket_cap_mb`."""
_SHARDED = re.compile(r"all_?gather|reduce_?scatter|send_?recv|all_?to_?all", re.IGNORECASE)
"""In names of kernels that exchange something else than DDP's gradients."""
_SHARDING = ("FSDP", "DeepSpeed", "ModelParallel")
"""How the names of strategies begin that gather weights."""
MOSTLY = 0.5
_SHARDS = (
    "It gathers or sends shards (of weights under FSDP, of embeddings), not DDP's gradients: have "
    "them fetched ahead (FSDPStrategy(forward_prefetch=True)), in larger pieces, or shard less "
    "(SHARD_GRAD_OP)."
)
_GATHERED = (
    "Most of it gathers or sends what is no gradient, which DDP's settings do not reach: the "
    "statistics of SyncBatchNorm in each of its layers, self.all_gather, or rows of sharded "
    "embeddings. Plain BatchNorm is enough where a rank's batch is large; gather once in "
    "many steps."
)


def evaluate(run: RunResults) -> Finding | Abstained | None:
    """Return a finding where communication is not hidden."""
    if run.start.world_size < 2:
        return None
    facts = trace_facts(run)
    cost = facts.per_step("gpu", "exposed_comm_ns") if facts else None
    if run.rank_waits is not None and run.rank_waits.exchange_ns is not None:
        cost = run.rank_waits.exchange_ns
    if run.step_ns is None or cost is None:
        return Abstained(
            ID,
            "it takes the time that two ranks or more wait for gradients, or an analysed trace "
            "with kernels of a GPU, and there is neither",
        )
    if cost < WARNING_FRAC * run.step_ns:
        return None
    comm = facts.per_step("gpu", "comm_ns") if facts else None
    saving = Range(low=round(LOW_FRAC * cost), high=min(run.step_ns, round(HIGH_FRAC * cost)))
    kernels = facts.rows("kernels") if facts else []
    rows = [row for row in kernels if row.get("category") == "communication"]
    advice = (
        "Exchange gradients less often (accumulate_grad_batches), smaller (a bf16 hook), or in "
        "other bucket sizes, so that the backward pass hides it."
    )
    change: str | None = "DDPStrategy(bucket_cap_mb=100, gradient_as_bucket_view=True)"
    strategy = str(run.start.trainer.get("strategy", ""))
    alone = _compute_alone_ns(facts)
    if shards := strategy.startswith(_SHARDING):
        saving = Range(low=0, high=round(min(run.step_ns, _prefetched_ns(cost, alone, rows))))
    if shards or _gathered_frac(rows) > MOSTLY:
        unknown = f"{_GATHERED} Under FSDP: {_SHARDS}"
        advice, change = _SHARDS if shards else _GATHERED if strategy else unknown, None
    elif 0 < run.start.model.get("parameter_bytes", 0) <= BUCKET_BYTES:
        advice = (
            "All gradients fit one of DDP's buckets, so no other bucket size hides the exchange: "
            "accumulate gradients over several batches, which makes the batch larger."
        )
        change = "Trainer(accumulate_grad_batches=4)"
    return Finding(
        id=ID,
        severity=grade(saving, run.step_ns),
        title=f"{duration(cost)} of each step ({percent(cost / run.step_ns)}) is communication "
        f"that "
        "nothing overlaps",
        advice=advice,
        evidence={
            "exposed_comm_ns": round(cost),
            "exposed_comm_frac": cost / run.step_ns,
            **({"comm_ns": round(comm)} if comm is not None else {}),
            **({"compute_alone_ns": round(alone)} if shards and alone is not None else {}),
            "step_ns": run.step_ns,
        },
        saving_ns=saving,
        confidence=0.5 if shards else 0.6,
        where=tuple(Where(kernel=str(row["name"]), rank=run.start.rank) for row in rows[:3]),
        change=change,
    )


def _compute_alone_ns(facts: TraceFacts | None) -> float | None:
    """Return what the device computes per step while it communicates nothing."""
    names = ("compute_ns", "comm_ns", "exposed_comm_ns")
    parts = [facts.per_step("gpu", name) for name in names] if facts else []
    known = [part for part in parts if part is not None]
    if len(known) < len(names):
        return None
    compute, comm, exposed = known
    return max(0.0, compute - (comm - exposed))


def _prefetched_ns(cost: float, alone: float | None, rows: Sequence[Mapping[str, Any]]) -> float:
    """Return the most that gathering ahead can hide of exposed communication per step."""
    calls = sum(row.get("count") or 0 for row in rows)
    per_call = sum(row["total_ns"] for row in rows) / calls if calls else 0.0
    most = max(0.0, cost - ENDS * per_call)
    return most if alone is None else min(most, alone)


def _gathered_frac(rows: Sequence[Mapping[str, Any]]) -> float:
    gathered_ns = sum(row["total_ns"] for row in rows if _SHARDED.search(str(row["name"])))
    return float(gathered_ns / max(1, sum(row["total_ns"] for row in rows)))
