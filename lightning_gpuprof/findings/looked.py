"""What the rules on a look at the forward pass have in common: without it they abstain."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from lightning_gpuprof.analysis.run.host_lines import host_lines
from lightning_gpuprof.analysis.run.line_times import LEAST_COUNT
from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.findings.model import Abstained
from lightning_gpuprof.records.function_calls import FunctionNotes, function_notes
from lightning_gpuprof.records.module_calls import MOST_PLACES, CallPlace
from lightning_gpuprof.records.phases import Phase

_Said = TypeVar("_Said")
ENOUGH = 30
"""Fewer samples of the forward pass bound no line's time: what none saw could be a tenth of it."""


def looked(
    finding_id: str,
) -> Callable[
    [Callable[[RunResults, int, FunctionNotes], _Said]], Callable[[RunResults], _Said | Abstained]
]:
    """Make a rule's `evaluate` of one that is given the mean step and what was seen, too."""

    def made(
        judge: Callable[[RunResults, int, FunctionNotes], _Said],
    ) -> Callable[[RunResults], _Said | Abstained]:
        def evaluate(run: RunResults) -> _Said | Abstained:
            seen = function_notes(run.notes)
            if run.step_ns is None or seen is None:
                return Abstained(finding_id, "no forward pass was looked at")
            return judge(run, run.step_ns, seen)

        evaluate.__doc__ = judge.__doc__
        return evaluate

    return made


def unwatched_ns(run: RunResults, taken_ns: int, places: Sequence[CallPlace]) -> int:
    """Return a step's time in functions that were timed by a look, no more than samples saw.

    Small functions take longer while they are watched; nothing watches where lines are sampled.
    Where as many lines are noted as are at most it is all lines of their functions.
    """
    seen, forward = host_lines(run.notes), run.per_step(Phase.FORWARD)
    if seen is None or forward is None or seen.by_phase.get(Phase.FORWARD.value, 0) < ENOUGH:
        return taken_ns
    functions = {(one.file, one.function) for one in places if len(places) >= MOST_PLACES}
    lines = {(one.file, one.line) for one in places}
    count = sum(
        one.count
        for one in seen.of(Phase.FORWARD)
        if (one.file, one.line) in lines or (one.file, one.function) in functions
    )
    most = seen.interval(max(count, LEAST_COUNT), Phase.FORWARD)[1]
    return min(taken_ns, round(most * forward.mean_ns))
