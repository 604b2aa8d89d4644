"""Evaluates rules over a run's results: needs, judge, say each millisecond once, rank."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from math import hypot

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.findings.grade import WARNING_FRAC
from lightning_gpuprof.findings.model import (
    Abstained,
    Effort,
    Finding,
    Horizon,
    Range,
    Severity,
    When,
    Where,
)
from lightning_gpuprof.findings.overlap import without_overlap
from lightning_gpuprof.findings.places import with_lines
from lightning_gpuprof.findings.ranking import ranked
from lightning_gpuprof.findings.rule import Rule, rules
from lightning_gpuprof.records.phases import Phase

MIN_SAVING_FRAC = 0.005
"""A saving below this share of the step is left out: no run of usual length could show it."""

FEW_STEPS, FEW_CONFIDENCE = 10, 0.5
"""Of fewer steps a mean says little: no finding is surer than that, nor critical."""

MOST_FRAC = 0.95
"""No change saves more of a step: something of it stays."""


@dataclass(frozen=True)
class Findings:
    """What the rules found, ranked, and what was not judged."""

    found: tuple[Finding, ...]
    abstained: tuple[Abstained, ...]
    silent: tuple[str, ...]
    """Rules that found nothing, or less than `MIN_SAVING_FRAC` of the step."""


def evaluate_rules(run: RunResults, chosen: Collection[Rule] | None = None) -> Findings:
    """Evaluate rules, by default all, and rank their findings (docs/adr/0030)."""
    found: list[Finding] = []
    abstained: list[Abstained] = []
    silent: list[str] = []
    for one in rules().values() if chosen is None else chosen:
        if (reason := one.lacking(run)) is not None:
            abstained.append(Abstained(one.id, reason))
            continue
        judged = one.evaluate(run)
        abstains = [each for each in judged if isinstance(each, Abstained)]
        abstained.extend(abstains)
        claims = [each for each in judged if isinstance(each, Finding)]
        kept = [_as_sure(each, run) for each in claims if _matters(each, run)]
        found.extend(with_lines(each, run) for each in kept)
        if not kept and not abstains:
            silent.append(one.id)
    found, back = without_overlap(found)
    return Findings(tuple(ranked(found)), (*abstained, *back), tuple(silent))


def make_plan(findings: Sequence[Finding]) -> list[tuple[Finding, Effort]]:
    """Return findings with what their change asks for, by when to make it; then as ranked."""
    every, order = rules(), list(Horizon)
    plan = [(finding, every[finding.id].effort) for finding in findings]
    return sorted(plan, key=lambda item: order.index(item[1].horizon))


def _as_sure(finding: Finding, run: RunResults) -> Finding:
    """Make a finding no surer than the run's length allows.

    Its saving is widened by what two equal runs of this length differ by; the errors are
    independent, so their squares add up. The middle stays, unless a step would take less than
    nothing. A saving that may be nothing, and of which little can be counted on, is `info`.
    """
    most_ns = _most_ns(finding, run)
    saving = Range(*(min(end, most_ns) for end in (finding.saving_ns.low, finding.saving_ns.high)))
    half = hypot((saving.high - saving.low) / 2, run.step_noise_ns or 0)
    half = max((saving.high - saving.low) / 2, min(half, saving.middle))
    high = min(round(saving.middle + half), most_ns)
    sure = Range(low=round(saving.middle - half), high=high)
    severity, confidence = finding.severity, finding.confidence
    if len(run.steady_dur_ns) < FEW_STEPS:
        confidence = min(confidence, FEW_CONFIDENCE)
        if severity is Severity.CRITICAL and saving.high > 0:
            severity = Severity.WARNING
    little = sure.low <= 0 < sure.high and sure.counted_on < WARNING_FRAC * (run.step_ns or 0)
    severity = Severity.INFO if little else severity
    cause = finding.cause_ns or finding.saving_ns
    return replace(
        finding,
        saving_ns=sure,
        likely_ns=round(min(finding.saving_ns.middle, cause.middle, most_ns)),
        indirect_ns=max(0, finding.saving_ns.high - most_ns),
        severity=severity,
        confidence=confidence,
    )


def step_of(finding: Finding, run: RunResults) -> int | None:
    """Return the step that a saving is a share of: with the time between epochs, if it is there."""
    return run.step_ns if finding.when is When.IN_STEPS else run.fit_step_ns


def _most_ns(finding: Finding, run: RunResults) -> int:
    """Return the most that a finding may save: the upper end of what its cause surely takes.

    At most `MOST_FRAC` of the step, or of what is between epochs too, where the cause is there.
    """
    step_ns = step_of(finding, run)
    most = MOST_FRAC * step_ns if step_ns else float(finding.saving_ns.high)
    if finding.cause_ns is not None:
        most = min(most, finding.cause_ns.high * (1 + _error_frac(finding, run)))
    return round(most)


def _error_frac(finding: Finding, run: RunResults) -> float:
    """Return half the 90 % interval of the mean of the part or phase that a finding names."""
    at = finding.where[0] if finding.where else Where()
    if finding.when is When.BETWEEN or at.phase is None:
        return 0.0
    parts = (one.per_step for one in run.parts_of(Phase(at.phase)) if one.name == at.name)
    taken = next(parts, None) or run.per_step(Phase(at.phase))
    return taken.error_frac if taken is not None else 0.0


def _matters(finding: Finding, run: RunResults) -> bool:
    if finding.saving_ns.high == 0 or not run.step_ns:
        return True
    return finding.saving_ns.middle >= MIN_SAVING_FRAC * run.step_ns
