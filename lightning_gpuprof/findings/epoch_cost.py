"""The finding of work that is done anew for each epoch."""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.findings.grade import grade
from lightning_gpuprof.findings.model import Finding, Range, When, Where
from lightning_gpuprof.units import duration, percent

MIN_FRAC = 0.01
"""Below one percent of the steps' time nobody would change a program."""


def epoch_finding(
    run: RunResults,
    taken_ns: int,
    times: int,
    *,
    name: str,
    title: str,
    advice: str,
    where: Where,
    gone_frac: tuple[float, float],
    confidence: float,
    change: str | None = None,
) -> Finding | None:
    """Return a finding where work takes a share of the epochs.

    Args:
        run: Whose epochs.
        taken_ns: What the work took, in total.
        times: For how many epochs it was done.
        name: The work's, in the evidence.
        title: With `{each}` for what one epoch's takes.
        advice: What to do.
        where: Where the work is done.
        gone_frac: The least and the most of it that the change saves.
        confidence: That it does.
        change: The change as code.
    """
    if run.steps is None or run.step_ns is None:
        return None
    cost_ns, each_ns = taken_ns // run.steps.ran, taken_ns // max(1, times)
    if cost_ns < MIN_FRAC * run.step_ns:
        return None
    least, most = gone_frac
    saving = Range(low=round(least * cost_ns), high=round(most * cost_ns))
    return Finding(
        severity=grade(saving, run.step_ns),
        title=f"{title.format(each=duration(each_ns))} ({percent(cost_ns / run.step_ns)})",
        advice=advice,
        evidence={
            f"{name}_ns": cost_ns,
            f"{name}_per_epoch_ns": each_ns,
            "epochs_count": times,
            "step_ns": run.step_ns,
        },
        saving_ns=saving,
        confidence=confidence,
        where=(where,),
        change=change,
        when=When.BETWEEN,
    )
