"""Rules that are one recorded fact and fixed advice: the rows of facts.toml, which are data alone.

A row names attributes by their path: `run.memory.use.peak_frac` is an attribute of `RunResults`,
`trace.lost_kernels` one of the run's last analysed trace (`TraceFacts`). An attribute that was not
measured is None, and so is everything below it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from string import Formatter
from typing import Any

from msgspec import Struct, field

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.trace_facts import TraceFacts, trace_facts
from lightning_gpuprof.findings.model import Effort, Finding, Severity
from lightning_gpuprof.findings.rule import Rule
from lightning_gpuprof.findings.tables import read_toml
from lightning_gpuprof.units import percent, size

UNITS: dict[str, Callable[[Any], str]] = {
    "": str,
    "count": "{:,.0f}".format,
    "percent": percent,
    "size": size,
}
"""How a template formats a value: `{run.memory.use.peak_frac:percent}`."""


@dataclass(frozen=True)
class FactSource:
    """What the attribute paths of a row begin with."""

    run: RunResults
    trace: TraceFacts | None

    def value(self, path: str) -> Any:
        """Return the value of an attribute path, None if it was not measured."""
        value: Any = self
        for name in path.split("."):
            if value is None:
                return None
            value = getattr(value, name)
        return value


class Condition(Struct, frozen=True, forbid_unknown_fields=True):
    """What must hold of an attribute: everything that the row states.

    `equals` is for words and truth values; that a number is 1 is `at_least = 1, below = 2`. Limits
    hold of measured values alone.
    """

    equals: str | bool | None = None
    above: float | None = None
    below: float | None = None
    at_least: float | None = None
    measured: bool | None = None

    def holds(self, value: Any) -> bool:
        """Return whether the condition holds of a value."""
        if self.measured is not None and self.measured != (value is not None):
            return False
        if self.equals is not None and value != self.equals:
            return False
        limits = (self.above, self.below, self.at_least)
        if any(limit is not None for limit in limits) and value is None:
            return False
        return not (
            (self.above is not None and value <= self.above)
            or (self.below is not None and value >= self.below)
            or (self.at_least is not None and value < self.at_least)
        )


class Case(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a row says in one case. `title`, `advice` and `change` are templates.

    Args:
        when: Conditions by attribute path, of which all must hold.
        setting: A template of `Finding.setting`.
        evidence: Replaces the row's evidence.
    """

    when: dict[str, Condition] = field(default_factory=dict)
    severity: Severity
    title: str
    advice: str
    change: str | None = None
    setting: str | None = None
    evidence: dict[str, str | int | float] | None = None


class Fact(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A row of facts.toml.

    Args:
        needs: Names of needs.py, as of any rule.
        confidence: How sure the row is that the fact is a problem, 0 to 1.
        unless: Conditions by attribute path; where one of them holds, the row is silent.
        evidence: Attribute paths, or constants, by the evidence's name, which ends in its unit.
            Evidence that was not measured is left out.
        case: The row's cases; the first one that applies makes the finding.
        page: The documentation page, under the headings that every rule's page has.
    """

    id: str
    needs: tuple[str, ...] = ()
    effort: Effort
    confidence: float
    unless: dict[str, Condition] = field(default_factory=dict)
    evidence: dict[str, str | int | float] = field(default_factory=dict)
    case: tuple[Case, ...]
    page: str

    def rule(self) -> Rule:
        """Return the row as a rule."""
        return Rule(self.id, self.needs, self.effort, self.judge, self.page)

    def judge(self, run: RunResults) -> Finding | None:
        """Return the finding of the first case that applies, None if none does."""
        source = FactSource(run, trace_facts(run))
        if any(condition.holds(source.value(path)) for path, condition in self.unless.items()):
            return None
        for case in self.case:
            if all(condition.holds(source.value(path)) for path, condition in case.when.items()):
                return self._finding(case, source)
        return None

    def _finding(self, case: Case, source: FactSource) -> Finding:
        evidence = self.evidence if case.evidence is None else case.evidence
        return Finding(
            severity=case.severity,
            title=_filled(case.title, source),
            advice=_filled(case.advice, source),
            evidence=_measured(evidence, source),
            confidence=self.confidence,
            change=None if case.change is None else _filled(case.change, source),
            setting=None if case.setting is None else _filled(case.setting, source),
        )


class _FactFile(Struct, frozen=True, forbid_unknown_fields=True):
    fact: tuple[Fact, ...]


def facts() -> tuple[Fact, ...]:
    """Return the rows of facts.toml."""
    return read_toml("facts.toml", _FactFile).fact


def _measured(
    evidence: Mapping[str, str | int | float], source: FactSource
) -> dict[str, int | float]:
    values = {
        name: source.value(path) if isinstance(path, str) else path
        for name, path in evidence.items()
    }
    return {name: value for name, value in values.items() if value is not None}


def _filled(template: str, source: FactSource) -> str:
    """Put values into a template.

    >>> from types import SimpleNamespace
    >>> run = SimpleNamespace(memory=SimpleNamespace(use=SimpleNamespace(peak_frac=0.25)))
    >>> _filled("{run.memory.use.peak_frac:percent} of the device", FactSource(run, None))
    '25% of the device'
    """
    filled = []
    for text, path, unit, _ in Formatter().parse(template):
        filled.append(text)
        if path is not None:
            filled.append(UNITS[unit or ""](source.value(path)))
    return "".join(filled)
