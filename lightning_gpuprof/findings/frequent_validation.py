"""Validation takes a noticeable share of the training time.

## What it measures
`validation_ns`: mean time per steady step in validation runs, on the host clock, spread over all
steps; `per_validation_ns`: what one of them takes.

## Why it matters
Training stands still during validation. It is worth its time as far as its result is acted upon.

## What to do
Validate less often (`val_check_interval`), on fewer batches (`limit_val_batches`), or with a larger
batch and more workers: no gradients are kept, so more samples fit.

## Thresholds
`LOW_FRAC`: validating a fifth as often, at least, leaves a fifth of the cost. Severity: the common
scale (`findings/grade.py`).
"""

from lightning_gpuprof.analysis.run import RunResults
from lightning_gpuprof.findings.grade import grade, seldom
from lightning_gpuprof.findings.model import (
    Abstained,
    Effort,
    Finding,
    Horizon,
    Range,
    Where,
)
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.units import duration, percent

ID = "frequent-validation"
EFFORT = Effort(Horizon.QUICK, "one argument of the Trainer", "overfitting is noticed later")
LOW_FRAC = 0.8
TARGET_FRAC = 0.03
"""The interval proposed keeps validation at about this share of the time."""


def evaluate(run: RunResults) -> Finding | Abstained | None:
    """Return a finding where validation costs time."""
    validation, step_ns = run.per_step(Phase.VALIDATION), run.step_ns
    if validation is None or step_ns is None or run.steps is None:
        return Abstained(ID, "no step's validation was measured")
    if not 0 < validation.mean_ns < step_ns:
        return None
    runs = run.flagged_steps.get("validation", 0)
    each_ns = validation.mean_ns * run.steps.dur.count // max(1, runs)
    every = seldom(
        run.steps.dur.count, runs, each_ns / (TARGET_FRAC * (step_ns - validation.mean_ns))
    )
    saving = Range(low=round(LOW_FRAC * validation.mean_ns), high=validation.mean_ns)
    return Finding(
        id=ID,
        severity=grade(saving, step_ns),
        title=f"Validation takes {duration(validation.mean_ns)} of each step on average "
        f"({percent(validation.mean_ns / step_ns)}), {duration(each_ns)} each time",
        advice=f"Validate every {every:,} steps or on fewer batches (limit_val_batches).",
        evidence={
            "validation_ns": validation.mean_ns,
            "validation_frac": validation.mean_ns / step_ns,
            "per_validation_ns": each_ns,
            "validations_count": runs,
            "step_ns": step_ns,
        },
        saving_ns=saving,
        confidence=0.9,
        where=(Where(phase=Phase.VALIDATION.value),),
        change=f"Trainer(..., val_check_interval={every})",
    )
