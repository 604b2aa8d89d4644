"""Evaluates rules over a run's results: needs, judge, say each millisecond once, rank."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from math import hypot

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.findings.grade import WARNING_FRAC
from lightning_gpuprof.findings.model import Abstained, Effort, Finding, Horizon, Range, Severity
from lightning_gpuprof.findings.overlap import without_overlap
from lightning_gpuprof.findings.places import with_lines
from lightning_gpuprof.findings.ranking import ranked
from lightning_gpuprof.findings.rule import Rule, rules

MIN_SAVING_FRAC = 0.005
"""A saving below this share of the step is left out: no run of usual length could show it."""

FEW_STEPS, FEW_CONFIDENCE = 10, 0.5
"""Of fewer steps a mean says little: no finding is surer than that, nor critical."""


@dataclass(frozen=True)
class Findings:
    """What the rules found, ranked, and what was not judged."""

    found: tuple[Finding, ...]
    abstained: tuple[Abstained, ...]
    silent: tuple[str, ...]
    """Rules that found nothing, or less than `MIN_SAVING_FRAC` of the step."""


@dataclass(frozen=True)
class PlanItem:
    """A change to make, with its difficulty and risk."""

    finding: Finding
    effort: Effort


def evaluate_rules(run: RunResults, chosen: Collection[Rule] | None = None) -> Findings:
    """Evaluate rules, by default all, and rank their findings (docs/adr/0030).

    A finding that claims no time (`saving_ns` of 0 to 0, such as unused memory) is kept.
    """
    found: list[Finding] = []
    abstained: list[Abstained] = []
    silent: list[str] = []
    for one in rules().values() if chosen is None else chosen:
        if (reason := one.lacking(run)) is not None:
            abstained.append(Abstained(one.id, reason))
            continue
        kept = [_as_sure(each, run) for each in one.evaluate(run) if _matters(each, run)]
        found.extend(with_lines(each, run) for each in kept)
        if not kept:
            silent.append(one.id)
    found, back = without_overlap(found)
    return Findings(tuple(ranked(found)), (*abstained, *back), tuple(silent))


def make_plan(findings: Sequence[Finding]) -> tuple[PlanItem, ...]:
    """Order findings by when to make their change; within that, as they are ranked."""
    items = [PlanItem(finding, rules()[finding.id].effort) for finding in findings]
    order = list(Horizon)
    return tuple(sorted(items, key=lambda item: order.index(item.effort.horizon)))


def _as_sure(finding: Finding, run: RunResults) -> Finding:
    """Make a finding no surer than the run's length allows.

    Its saving is widened by what two equal runs of this length differ by; the errors are
    independent, so their squares add up. The middle stays, unless a step would take less than
    nothing. A saving that may be nothing, and of which little can be counted on, is `info`.
    """
    saving = finding.saving_ns
    half = hypot((saving.high - saving.low) / 2, run.step_noise_ns or 0)
    half = max((saving.high - saving.low) / 2, min(half, saving.middle))
    high = min(round(saving.middle + half), max(saving.high, run.step_ns or 0))
    sure = Range(low=round(saving.middle - half), high=high)
    severity, confidence = finding.severity, finding.confidence
    if len(run.steady_dur_ns) < FEW_STEPS:
        confidence = min(confidence, FEW_CONFIDENCE)
        if severity is Severity.CRITICAL and saving.high > 0:
            severity = Severity.WARNING
    little = sure.low <= 0 < sure.high and sure.counted_on < WARNING_FRAC * (run.step_ns or 0)
    severity = Severity.INFO if little else severity
    return replace(finding, saving_ns=sure, severity=severity, confidence=confidence)


def _matters(finding: Finding, run: RunResults) -> bool:
    if finding.saving_ns.high == 0 or not run.step_ns:
        return True
    return finding.saving_ns.middle >= MIN_SAVING_FRAC * run.step_ns
