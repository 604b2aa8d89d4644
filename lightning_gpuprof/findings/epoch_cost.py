"""Findings about work that is repeated in every epoch."""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.findings.model import Finding, Place, Range, When
from lightning_gpuprof.units import duration, percent

MIN_FRAC = 0.01
"""Nobody would change a program for less than this share of the steps' time."""


def epoch_finding(
    run: RunResults,
    time_ns: int,
    times: int,
    *,
    name: str,
    title: str,
    advice: str,
    place: Place,
    gone_frac: tuple[float, float],
    confidence: float,
    change: str | None = None,
    error_frac: float = 0.0,
) -> Finding | None:
    """Return the finding about work that epochs repeat; None if it takes little time.

    Args:
        run: The run's results.
        time_ns: What the work took in total.
        times: In how many epochs it was done.
        name: Begins the names of the evidence.
        title: A template for the time per epoch, `{each}`; the share of the run is added.
        advice: What to do.
        place: Where the time is spent.
        gone_frac: The least and the most of the time that the change saves.
        confidence: How sure the rule is.
        change: The change as code.
        error_frac: The relative error of the time.
    """
    if run.steps is None or not run.step_ns or time_ns < MIN_FRAC * run.step_ns * run.steps.ran:
        return None
    cost_ns, each_ns = time_ns // run.steps.ran, time_ns // max(1, times)
    saving = Range(*(round(part * cost_ns) for part in gone_frac))
    return Finding(
        title=f"{title.format(each=duration(each_ns))} ({of_run(run, time_ns)})",
        advice=advice,
        evidence={f"{name}_ns": cost_ns, f"{name}_per_epoch_ns": each_ns, "epochs_count": times},
        saving_ns=saving,
        cause_ns=Range(cost_ns, round(cost_ns * (1 + error_frac))),
        confidence=confidence,
        places=(place,),
        change=change,
        when=When.BETWEEN,
    )


def of_run(run: RunResults, time_ns: float) -> str:
    """Return in words the share of the whole run that some time is.

    Time between epochs is no part of a steady step, so it has no share of one.
    """
    return f"{percent(run.of_run(time_ns))} of the run"


def workers_stay(run: RunResults) -> bool:
    """Return whether epochs start no workers: there are none, or they are persistent."""
    loader, starts = run.start.loader, run.epochs.starts
    if loader is None or loader.num_workers is None:
        return False
    remade = starts is not None and starts.remade_ns > 0
    return not loader.num_workers or (bool(loader.persistent_workers) and not remade)
