"""Adds to a run what its slowest operators usually take on this machine."""

from dataclasses import replace

from lightning_gpuprof.analysis.run.operator_rates import machine_of, suspects
from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.hardware.operator_times import operator_times


def with_operator_times(run: RunResults, *, measure: bool) -> RunResults:
    """Return a run's results with the times of calls that may be slow.

    Args:
        run: The results.
        measure: Whether to measure times that are not stored yet, for some seconds. Never while the
            run trains: it would slow down training, and training would slow it down.
    """
    machine, calls = machine_of(run), suspects(run)
    if machine is None or not calls:
        return run
    times = operator_times(machine, calls, measure=measure and run.end is not None)
    return replace(run, operator_times=times)
