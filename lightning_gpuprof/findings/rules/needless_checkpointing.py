"""Activations are dropped and computed again, though there is memory to keep them.

## What it measures
In the forward pass of the run's first batches: functions that run inside `torch.utils.checkpoint`
(`again_ns`), what their results take (`made_bytes`), and how much memory is free: of the device by
the run's highest peak, of the host by what Linux says is available.

## Why it matters
Checkpointing trades time for memory: each such function runs a second time for the backward pass.
Where the activations fit anyway, the time is given for nothing.

## What to do
Call the layers directly, or checkpoint fewer of them: as many as the batch needs to fit.

## Thresholds
`SPARE`: the activations must fit so many times, since other batches may be longer. Not all results
are kept for the backward pass, so `made_bytes` is their most. Where that does not fit, nothing is
said. The second pass takes what the first one did, a fifth less or more (docs/adr/0031), and
`CALL_NS` of Python for each function at most. The first batches are slower than later ones: it
takes no longer than a steady forward pass, in which it is once. On a GPU the host's clock gives no
low bound. Severity: the common scale (`findings/grade.py`).
"""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.savings.hidden import around
from lightning_gpuprof.findings.grade import by_host, grade
from lightning_gpuprof.findings.looked import looked
from lightning_gpuprof.findings.model import Abstained, Effort, Finding, Horizon
from lightning_gpuprof.findings.places import in_forward
from lightning_gpuprof.records.function_calls import Checkpointed, FunctionNotes
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.units import duration, percent, size

ID = "needless-checkpointing"
EFFORT = Effort(Horizon.QUICK, "layers are called directly", "a longer batch may no longer fit")
SPARE = 2
CALL_NS = 20_000


@looked(ID)
def evaluate(run: RunResults, step_ns: int, seen: FunctionNotes) -> Finding | Abstained | None:
    """Return a finding where checkpointed activations would fit."""
    one = seen.checkpointed
    if one is None:
        return None
    free_bytes = _free_bytes(run, one)
    if free_bytes is None:
        return Abstained(ID, "how much memory is free was not measured")
    return _finding(run, step_ns, one, free_bytes) if _fits(one, free_bytes) else None


def _fits(one: Checkpointed, free_bytes: int) -> bool:
    return SPARE * one.made_bytes <= free_bytes


def _free_bytes(run: RunResults, one: Checkpointed) -> int | None:
    if not run.on_gpu:
        return one.free_bytes
    memory = run.memory
    if memory is None:
        return None
    return memory.total_bytes - memory.peak_reserved_bytes - (memory.others_bytes or 0)


def _finding(run: RunResults, step_ns: int, one: Checkpointed, free_bytes: int) -> Finding:
    forward = None if run.on_gpu else run.per_step(Phase.FORWARD)
    again_ns = min(one.taken_ns, forward.mean_ns) if forward else one.taken_ns
    low, _ = around(again_ns)
    _, high = around(again_ns + CALL_NS * one.calls)
    saving = by_host(low, high, step_ns, unsure=run.on_gpu)
    return Finding(
        id=ID,
        severity=grade(saving, step_ns),
        title=f"Checkpointed layers run twice: {duration(again_ns)} of each step "
        f"({percent(again_ns / step_ns)}), to drop at most {size(one.made_bytes)} where "
        f"{size(free_bytes)} are free",
        advice="Call the layers directly, or checkpoint only as many as the batch needs to fit.",
        evidence={
            "again_ns": again_ns,
            "made_bytes": one.made_bytes,
            "free_bytes": free_bytes,
            "step_ns": step_ns,
        },
        saving_ns=saving,
        confidence=0.5 if run.on_gpu else 0.8,
        where=in_forward(one.places),
        change="x = layer(x)  # not checkpoint(layer, x)",
    )
