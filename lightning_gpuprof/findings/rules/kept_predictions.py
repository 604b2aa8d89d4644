"""The Trainer keeps the output of every batch of `predict` until the end.

## Symptom
Memory grows all through `trainer.predict`, until it is full. Each batch also takes longer, because
its output needs new memory.

## Why
`trainer.predict` returns the list of all that `predict_step` returned, and therefore keeps it. A
`BasePredictionWriter` with `write_interval="epoch"` receives the same list in the end.

## Fix
```python
outputs = trainer.predict(model, loader)  # before: every batch's output stays in memory
trainer.predict(model, loader, return_predictions=False)  # after
```

If the outputs are needed, write each batch's to disk in a callback derived from
`BasePredictionWriter(write_interval="batch")`, or return less from `predict_step`: labels instead
of logits, or float16.

## How it is measured
`batch_bytes` is the memory that the first batch's output holds on the host; a part of a tensor
holds the whole tensor. `kept_bytes` is that of all batches. The saving is the time that the thread
spent in the kernel, as far as the kept outputs account for the pages that it used for the first
time, and up to 1.6 times as much, because such pages are in no cache.

## Limits
The rule is silent below 64 MiB in all. The size of later batches is not measured. Only Linux counts
the time of new pages.
"""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.findings.model import Effort, Finding, Horizon, Place, Range, Severity
from lightning_gpuprof.findings.rule import evidence_of, measured, rule
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.units import size

MIN_BYTES = 64 * 2**20
"""In all. Less is in nobody's way."""
PAGE_BYTES = 4096
LEAST, MOST = 0.9, 1.6
"""What goes with the kernel's time: nearly all of it, and at most the misses of the caches that new
pages cause as well (1.35 to 1.6 times were measured on two cores)."""
PART = 4
"""An output that holds this many times its own bytes is a small part of a larger tensor."""
ADVICE = (
    "If nothing uses what trainer.predict returns, pass return_predictions=False. Otherwise write "
    'each batch\'s output to disk with a BasePredictionWriter(write_interval="batch"), or return '
    "less from predict_step, such as labels instead of logits."
)
WRITER = (
    '{writer} receives all outputs at the epoch\'s end. Use write_interval="batch", so that each '
    "batch's output is written and released."
)
PART_OF = (
    " What predict_step returns is a small part of a larger tensor, all of which stays in memory: "
    "return a copy of the part (.clone())."
)
EFFORT = Effort(Horizon.QUICK, "an argument of predict", "predict returns nothing")


@rule(id="kept-predictions", needs=("steps", "kept predictions"), effort=EFFORT)
def judge(run: RunResults) -> Finding | None:
    """Return the finding about outputs of `predict` that are kept."""
    kept, steps = measured(run.facts.kept_predictions), measured(run.steps).ran
    kept_bytes = kept.batch_bytes * steps
    if kept_bytes < MIN_BYTES:
        return None
    cost_ns = _cost_ns(run, kept_bytes, steps)
    saving = Range(0, 0)
    if cost_ns is not None:
        saving = Range(round(LEAST * cost_ns), round(MOST * cost_ns))
    only_writer = kept.writer is not None and not kept.returned
    advice = WRITER.format(writer=kept.writer) if kept.writer is not None else ADVICE
    is_part = kept.batch_bytes >= PART * max(1, kept.view_bytes)
    change = "trainer.predict(model, loader, return_predictions=False)"
    return Finding(
        severity=Severity.WARNING,
        title=f"predict keeps {size(kept.batch_bytes)} of each batch until its end",
        advice=advice + (PART_OF if is_part else ""),
        evidence=evidence_of(
            batch_bytes=kept.batch_bytes, kept_bytes=kept_bytes, new_memory_ns=cost_ns
        ),
        saving_ns=saving,
        cause_ns=None if cost_ns is None else saving,
        confidence=0.9,
        places=(Place(phase=Phase.FORWARD.value, name=kept.writer or "predict_step"),),
        change=None if only_writer else change,
        matters=True,
        explains=("memory-growth",),
    )


def _cost_ns(run: RunResults, kept_bytes: int, steps: int) -> int | None:
    """Return the time per step of the kernel's work for the kept memory; None if not measured."""
    faults = run.facts.page_faults
    if faults is None or not faults.faults:
        return None
    frac = min(1.0, kept_bytes / PAGE_BYTES / faults.faults)
    return round(frac * faults.system_ns / steps)
