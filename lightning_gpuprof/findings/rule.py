"""A rule: one function of a run's results, with its id, its needs and what its change asks for."""

import pkgutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from typing import TypeVar

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.findings.grade import grade
from lightning_gpuprof.findings.model import Abstained, Effort, Finding, Severity
from lightning_gpuprof.findings.needs import NEEDS

_T = TypeVar("_T")
Judged = Finding | tuple[Finding, ...] | Abstained | None
"""What a rule returns: None where all is well."""


@dataclass(frozen=True)
class Rule:
    """A rule as `@rule` makes it."""

    id: str
    needs: tuple[str, ...]
    effort: Effort
    judge: Callable[[RunResults], Judged]
    doc: str

    def lacking(self, run: RunResults) -> str | None:
        """Return the sentence on the first need that is not met; None where all are."""
        unmet = (NEEDS[name] for name in self.needs if not NEEDS[name].met(run))
        return next((need.missing for need in unmet), None)

    @property
    def of_trace(self) -> bool:
        """Whether a trace alone gives all that the rule needs."""
        return bool(self.needs) and all(NEEDS[name].by_trace for name in self.needs)

    def evaluate(self, run: RunResults) -> tuple[Finding | Abstained, ...]:
        """Judge a run that has what the rule needs.

        A finding is graded, unless the rule did; evidence of a cost names the step as well.
        """
        judged = self.judge(run)
        several = judged if isinstance(judged, tuple) else (judged,)
        return tuple(self._whole(one, run) for one in several if one is not None)

    def _whole(self, one: Finding | Abstained, run: RunResults) -> Finding | Abstained:
        if isinstance(one, Abstained):
            return replace(one, id=self.id)
        severity, evidence = one.severity, one.evidence
        if severity is Severity.BY_SAVING:
            severity = grade(one.saving_ns, run.step_ns or 1)
        if run.step_ns is not None and one.cause_ns is not None:
            evidence = {**evidence, "step_ns": run.step_ns}
        return replace(one, id=self.id, severity=severity, evidence=evidence)


def rule(
    *, id: str, needs: tuple[str, ...] = (), effort: Effort
) -> Callable[[Callable[[RunResults], Judged]], Rule]:
    """Make a rule of the function below."""
    if unknown := [name for name in needs if name not in NEEDS]:
        raise ValueError(f"rule {id!r} needs {unknown}, which needs.py does not name")

    def made(judge: Callable[[RunResults], Judged]) -> Rule:
        return Rule(id, needs, effort, judge, import_module(judge.__module__).__doc__ or "")

    return made


@cache
def rules(package: str = "lightning_gpuprof.findings.rules") -> dict[str, Rule]:
    """Return the rules of a package by id, in the order of the alphabet: one for each module."""
    folder = import_module(package).__path__
    modules = [import_module(f"{package}.{one.name}") for one in pkgutil.iter_modules(folder)]
    every = [found for one in modules for found in vars(one).values() if isinstance(found, Rule)]
    return {found.id: found for found in sorted(every, key=lambda found: found.id)}


def measured(value: _T | None) -> _T:
    """Return a value of which a need of the rule has made sure that it is there."""
    if value is None:
        raise LookupError("a rule reads a value that none of its needs makes sure of")
    return value


def known(**figures: float | None) -> dict[str, int | float]:
    """Return the evidence that is there: figures by name, without those that are None."""
    return {name: figure for name, figure in figures.items() if figure is not None}
