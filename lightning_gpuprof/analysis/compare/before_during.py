"""The steps before a slow-down and those during it, side by side as two runs."""

from collections.abc import Mapping
from dataclasses import dataclass

from lightning_gpuprof.analysis.compare.compare import Comparison, compare
from lightning_gpuprof.analysis.run.run import analyze_run
from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.slow_downs import spans_around
from lightning_gpuprof.analysis.trace_tables import TraceAnalysis
from lightning_gpuprof.errors import RecordError
from lightning_gpuprof.records.facts import SlowDown
from lightning_gpuprof.records.reader import RankRecords

TOLERANCE = 0.0
"""Any will do: two spans of a run have no step in common whose values could be compared."""


@dataclass(frozen=True)
class BeforeDuring:
    """A slow-down, with the results of the steps before it and of those during it."""

    slow_down: SlowDown
    before: RunResults
    during: RunResults
    result: Comparison


def before_during(
    ranks: Mapping[int, RankRecords], traces: Mapping[str, TraceAnalysis], run: RunResults
) -> BeforeDuring | None:
    """Compare the steps before and during the slow-down of a run that has cost most.

    Args:
        ranks: The records by rank, that of `run` among them.
        traces: The analyses of the run's traces, by the trace file's name.
        run: The results of all steps.

    Returns:
        None if no slow-down was noticed, or no step was recorded before it.
    """
    if run.slow_down is None:
        return None
    slow_down = run.slow_down.slow_down
    spans = spans_around(slow_down, run.slow_downs)
    if spans is None:
        return None
    start = run.start
    # What is compared is of the described rank. Comparing all ranks again would take seconds.
    own = {start.rank: ranks[start.rank]}
    try:
        before, during = (
            analyze_run(own, traces, session=start.session, span=span, finds_slow_downs=False)
            for span in spans
        )
    except RecordError:
        return None
    # Larger batches are a cause to be shown, not a scale to be divided by.
    result = compare(before, during, tolerance=TOLERANCE, per_step=True)
    return BeforeDuring(slow_down, before, during, result)
