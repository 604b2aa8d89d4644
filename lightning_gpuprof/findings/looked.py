"""What the rules on a look at the forward pass have in common: without it they abstain."""

from collections.abc import Callable
from typing import TypeVar

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.findings.model import Abstained
from lightning_gpuprof.records.function_calls import FunctionNotes, function_notes

_Said = TypeVar("_Said")


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
