"""What the rules share that judge work done anew for each epoch."""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.savings.hidden import around
from lightning_gpuprof.findings.grade import grade
from lightning_gpuprof.findings.model import Abstained, Finding, Range, When, Where
from lightning_gpuprof.units import duration, percent

MIN_FRAC = 0.01
LOW_FRAC = 0.5
"""As of samples that are made cheaper (docs/adr/0031)."""


def epoch_finding(
    run: RunResults,
    taken_ns: int,
    *,
    rule: str,
    name: str,
    title: str,
    advice: str,
    where: Where,
    avoidable: bool = False,
) -> Finding | Abstained | None:
    """Return a finding where work takes a share of the epochs.

    Args:
        run: With its epochs' starts.
        taken_ns: What the work took in the epochs after the first, in total.
        rule: The finding's id.
        name: The work's, in the evidence.
        title: With `{each}` for what one epoch's takes.
        advice: What to do.
        where: Where the work is done.
        avoidable: It was done before and may not be needed again: code that takes half as long is
            the least to expect. Else nobody knows how much of it must stay.
    """
    starts, steps, step_ns = run.epoch_starts, run.steps, run.step_ns
    if starts is None or steps is None or step_ns is None:
        return Abstained(rule, "no start of an epoch was measured")
    cost_ns = taken_ns // steps.ran
    if cost_ns < MIN_FRAC * step_ns:
        return None
    each_ns = taken_ns // max(1, starts.count - 1)
    saving = Range(low=0, high=cost_ns)
    if avoidable:
        saving = Range(low=round(LOW_FRAC * cost_ns), high=around(cost_ns)[1])
    return Finding(
        id=rule,
        severity=grade(saving, step_ns),
        title=f"{title.format(each=duration(each_ns))} ({percent(cost_ns / step_ns)} of all steps)",
        advice=advice,
        evidence={
            f"{name}_ns": cost_ns,
            f"{name}_per_epoch_ns": each_ns,
            "epochs_count": starts.count,
            "step_ns": step_ns,
        },
        saving_ns=saving,
        confidence=0.9 if avoidable else 0.5,
        where=(where,),
        when=When.BETWEEN,
    )
