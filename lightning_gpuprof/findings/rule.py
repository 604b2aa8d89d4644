"""A rule: a function from a run's results to findings, with its id, its needs and its page."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module
from typing import TypeVar

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.findings.grade import grade
from lightning_gpuprof.findings.model import Abstained, Effort, Finding, Severity
from lightning_gpuprof.findings.needs import NEEDS

ValueType = TypeVar("ValueType")
Judgement = Finding | tuple[Finding, ...] | Abstained | None
"""What a rule returns; None or no finding if there is nothing to change."""


@dataclass(frozen=True)
class Rule:
    """A rule, as `@rule` makes it.

    Args:
        id: The id of its findings, which is its file's name with hyphens.
        needs: Names in `NEEDS`; without one of them the rule is not called.
        effort: What the change of its findings takes.
        judge: The function.
        page: Its documentation page, in Markdown.

    Raises:
        ValueError: `needs` names something that needs.py does not define.
    """

    id: str
    needs: tuple[str, ...]
    effort: Effort
    judge: Callable[[RunResults], Judgement]
    page: str

    def __post_init__(self) -> None:
        if unknown := [name for name in self.needs if name not in NEEDS]:
            raise ValueError(f"rule {self.id!r} needs {unknown}, which needs.py does not define")

    def lacking(self, run: RunResults) -> str | None:
        """Return the sentence about the first need that a run does not meet, None if it meets all.

        The sentence says what it takes.
        """
        unmet = (NEEDS[name] for name in self.needs if not NEEDS[name].met(run))
        return next((need.missing for need in unmet), None)

    @property
    def of_trace(self) -> bool:
        """Whether a trace without a run's records can meet all needs."""
        return bool(self.needs) and all(NEEDS[name].by_trace for name in self.needs)

    def evaluate(self, run: RunResults) -> tuple[Finding | Abstained, ...]:
        """Judge a run that meets the rule's needs.

        Findings get the rule's id and, if the rule did not grade them, a severity. Evidence of a
        cost is completed by the step that it is a part of.
        """
        judgement = self.judge(run)
        results = judgement if isinstance(judgement, tuple) else (judgement,)
        return tuple(self._completed(result, run) for result in results if result is not None)

    def _completed(self, result: Finding | Abstained, run: RunResults) -> Finding | Abstained:
        if isinstance(result, Abstained):
            return replace(result, id=self.id)
        severity, evidence = result.severity, result.evidence
        if severity is Severity.BY_SAVING:
            severity = grade(result.saving_ns, run.step_ns or 1)
        if run.step_ns is not None and result.cause_ns is not None:
            evidence = {**evidence, "step_ns": run.step_ns}
        return replace(result, id=self.id, severity=severity, evidence=evidence)


def rule(
    *, id: str, needs: tuple[str, ...] = (), effort: Effort
) -> Callable[[Callable[[RunResults], Judgement]], Rule]:
    """Make a rule of the function below. The module's docstring is the rule's page."""

    def decorate(judge: Callable[[RunResults], Judgement]) -> Rule:
        return Rule(id, needs, effort, judge, import_module(judge.__module__).__doc__ or "")

    return decorate


def measured(value: ValueType | None) -> ValueType:
    """Return a value that the rule's needs guarantee to have been measured.

    Raises:
        LookupError: The value is None, because the rule does not declare the need for it.
    """
    if value is None:
        raise LookupError("this value is measured in some runs only: name its need in `needs`")
    return value


def evidence_of(**figures: float | None) -> dict[str, int | float]:
    """Return evidence: the figures that were measured, without those that are None."""
    return {name: figure for name, figure in figures.items() if figure is not None}
