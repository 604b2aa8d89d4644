"""Evaluates rules over a run's results, and ranks the findings without counting time twice."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from math import hypot

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.findings.grade import WARNING_FRAC
from lightning_gpuprof.findings.model import (
    Abstained,
    Effort,
    Finding,
    Range,
    Severity,
    When,
)
from lightning_gpuprof.findings.overlap import without_overlap
from lightning_gpuprof.findings.places import with_lines
from lightning_gpuprof.findings.ranking import ranked
from lightning_gpuprof.findings.registry import rules
from lightning_gpuprof.findings.rule import Rule
from lightning_gpuprof.findings.trial_commands import trial_command
from lightning_gpuprof.records.phases import Phase

MIN_SAVING_FRAC = 0.005
"""A saving below this share of the step is left out: no run of usual length could show it."""

FEW_STEPS, FEW_CONFIDENCE = 10, 0.5
"""The mean of fewer steps is uncertain: confidence is then at most `FEW_CONFIDENCE`, and no finding
is critical."""

MOST_FRAC = 0.95
"""No change saves more of a step than this: something always remains."""


@dataclass(frozen=True)
class Evaluation:
    """The findings in a run, ranked, and the rules without one."""

    findings: tuple[Finding, ...]
    abstained: tuple[Abstained, ...]
    silent: tuple[str, ...]
    """Ids of rules that had their input and found nothing, or less than `MIN_SAVING_FRAC`."""


def evaluate_rules(run: RunResults, chosen: Collection[Rule] | None = None) -> Evaluation:
    """Evaluate rules over a run and rank their findings (docs/adr/0030).

    Args:
        run: The run's results.
        chosen: The rules to evaluate; None for all.
    """
    findings: list[Finding] = []
    abstained: list[Abstained] = []
    silent: list[str] = []
    for rule in rules().values() if chosen is None else chosen:
        if (reason := rule.lacking(run)) is not None:
            abstained.append(Abstained(rule.id, reason))
            continue
        results = rule.evaluate(run)
        declined = [result for result in results if isinstance(result, Abstained)]
        claimed = [result for result in results if isinstance(result, Finding)]
        large = [_bounded(finding, run) for finding in claimed if _matters(finding, run)]
        abstained.extend(declined)
        placed = (with_lines(finding, run) for finding in large)
        findings.extend(replace(finding, trial=trial_command(finding, run)) for finding in placed)
        if not large and not declined:
            silent.append(rule.id)
    findings, suppressed = without_overlap(findings)
    return Evaluation(tuple(ranked(findings)), (*abstained, *suppressed), tuple(silent))


def make_plan(findings: Sequence[Finding]) -> list[tuple[Finding, Effort]]:
    """Return changes, as findings are ranked, with what each takes."""
    return [
        (finding, finding.effort or rules()[finding.id].effort)
        for finding in findings
        if finding.is_change
    ]


def step_of(finding: Finding, run: RunResults) -> int | None:
    """Return the step that a finding's saving is a share of.

    It is the steady step, or the mean step including the time between epochs if the saving lies
    there, unless the finding names another.
    """
    if finding.of_step_ns:
        return finding.of_step_ns
    return run.step_ns if finding.when is When.IN_STEPS else run.fit_step_ns


def _bounded(finding: Finding, run: RunResults) -> Finding:
    """Make a finding no more certain than the run's length allows.

    The saving is widened by how much two equal runs of this length differ; the two errors are
    independent, so their squares add up. The middle stays where it is unless the lower end would
    fall below zero, or the machine was busy.
    """
    most_ns = _most_ns(finding, run)
    claimed = finding.saving_ns
    capped = Range(low=min(claimed.low, most_ns), high=min(claimed.high, most_ns))
    half = (capped.high - capped.low) / 2
    widened = max(half, min(hypot(half, run.variation.noise_ns or 0), capped.middle))
    saving = Range(
        low=round((capped.middle - widened) * (1 - _waited_frac(run))),
        high=min(round(capped.middle + widened), most_ns),
    )
    severity, confidence = finding.severity, finding.confidence
    if len(run.steady_dur_ns) < FEW_STEPS:
        confidence = min(confidence, FEW_CONFIDENCE)
        if severity is Severity.CRITICAL and capped.high > 0:
            severity = Severity.WARNING
    cause = finding.cause_ns or claimed
    return replace(
        finding,
        saving_ns=saving,
        likely_ns=round(min(claimed.middle, cause.middle + finding.beyond_ns, most_ns)),
        indirect_ns=max(0, claimed.high - most_ns),
        severity=severity_of(replace(finding, severity=severity), saving, run),
        confidence=confidence,
    )


def _waited_frac(run: RunResults) -> float:
    """Return the share of host times that is waiting for a core, on a busy machine.

    A cause takes less by so much where cores are free, so at least the rest of it is saved. On a
    GPU the times that are saved are the device's.
    """
    return 0.0 if run.on_gpu else run.facts.busy_frac


def severity_of(finding: Finding, saving: Range, run: RunResults) -> Severity:
    """Return a finding's severity with this saving.

    A saving that may be zero and is unlikely to be noticeable is `info`, unless the finding matters
    without it.
    """
    may_be_nothing = saving.low <= 0 < saving.high
    is_little = saving.counted_on < WARNING_FRAC * (run.step_ns or 0)
    if may_be_nothing and is_little and not finding.matters:
        return Severity.INFO
    return finding.severity


def _most_ns(finding: Finding, run: RunResults) -> int:
    """Return the most that a finding may save.

    That is the upper end of what its cause takes, with what it saves beyond it, and at most
    `MOST_FRAC` of the step (with the time between epochs, if the cause lies there).
    """
    step_ns = step_of(finding, run)
    most = MOST_FRAC * step_ns if step_ns else float(finding.saving_ns.high)
    if finding.cause_ns is not None:
        cause_ns = finding.cause_ns.high * (1 + _error_frac(finding, run))
        most = min(most, cause_ns + finding.beyond_ns)
    return round(most)


def _error_frac(finding: Finding, run: RunResults) -> float:
    """Return the relative error of the mean of the part or phase that a finding names first.

    It is half the width of the 90 % interval.
    """
    place = finding.places[0] if finding.places else None
    if place is None or place.phase is None or finding.when is When.BETWEEN:
        return 0.0
    phase = Phase(place.phase)
    of_parts = (part.per_step for part in run.parts_of(phase) if part.name == place.name)
    mean = next(of_parts, None) or run.per_step(phase)
    return mean.error_frac if mean is not None else 0.0


def _matters(finding: Finding, run: RunResults) -> bool:
    """Return whether a finding claims no time, or enough of it to be shown."""
    if finding.matters or finding.saving_ns.high == 0 or not run.step_ns:
        return True
    return finding.saving_ns.middle >= MIN_SAVING_FRAC * run.step_ns
