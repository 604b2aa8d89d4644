"""Ranks findings by the saving that can be counted on, whether estimated or measured."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from lightning_gpuprof.findings.model import Finding, Range, Severity
from lightning_gpuprof.findings.overlap import GENERAL, same_line
from lightning_gpuprof.records.trials import FASTER, Trial, Trials

LAST = "costly-line"
"""This finding comes after all others that claim no time: it knows no reason."""
RANKS_AS = {Severity.WARNING: 0.1, Severity.CRITICAL: 0.2}
"""A finding that matters without saving time ranks as if it saved this share of a step."""
MOST = 0.5
"""A finding is a reason for another if it may account for this share of the other's saving."""


def ranked(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings in the order in which every surface lists them.

    The order is by the saving that can be counted on, whatever the severity: `Range.counted_on`
    times the rule's confidence (docs/adr/0030). What matters without saving time, as memory that
    fills up, comes before savings below `RANKS_AS`. Other findings that claim no time come last. A
    finding that only knows that the host is busy at a line comes right after the finding that knows
    a reason for most of it.
    """
    every = list(findings)
    step_ns = max((finding.evidence.get("step_ns", 0) for finding in every), default=0)
    ordered = sorted(every, key=lambda finding: _rank(finding, step_ns))
    for general in [finding for finding in ordered if finding.id in GENERAL]:
        reason = next((finding for finding in ordered if _is_reason(finding, general)), None)
        if reason is not None and ordered.index(reason) > ordered.index(general):
            ordered.remove(general)
            ordered.insert(ordered.index(reason) + 1, general)
    return ordered


def _is_reason(reason: Finding, general: Finding) -> bool:
    if reason.id in GENERAL or reason.worth_a_change < general.worth_a_change:
        return False
    if not same_line(reason, general):
        return False
    return reason.saving_ns.high >= MOST * general.saving_ns.middle


def proposed(findings: Sequence[Finding]) -> Finding | None:
    """Return the finding whose change is proposed first; None if none is worth a change."""
    return next((finding for finding in findings if finding.worth_a_change), None)


def _rank(finding: Finding, step_ns: float) -> tuple[float, bool, bool, float]:
    counted_on = finding.saving_ns.counted_on * finding.confidence
    if finding.matters:
        counted_on = max(counted_on, RANKS_AS.get(finding.severity, 0.0) * step_ns)
    is_last, is_info = finding.id == LAST, finding.severity is Severity.INFO
    return (-counted_on, is_last, is_info, -finding.confidence)


def with_trials(findings: Sequence[Finding], trials: Trials | None) -> list[Finding]:
    """Return findings, ranked anew, with the measured gain of the best trial of their change."""
    if trials is None:
        return list(findings)
    measured = [trial for trial in trials.trials if trial.gain_ns is not None]
    replaced = [_with_gain(finding, measured) for finding in findings]
    return ranked(replaced) if measured else replaced


def _with_gain(finding: Finding, trials: Sequence[Trial]) -> Finding:
    of_finding = [trial for trial in trials if finding.id in trial.findings]
    if not of_finding:
        return finding
    # A change that alters results is a choice: it counts only if no other change was tried.
    best = max(of_finding, key=lambda trial: (not trial.alters, trial.gain_frac or 0.0))
    low, high = best.gain_ns or (0, 0)
    saving = Range(low=max(0, low), high=max(0, high))
    faster = best.verdict == FASTER
    return replace(
        finding,
        saving_ns=saving,
        likely_ns=round(saving.middle),
        indirect_ns=0,
        cause_ns=None,  # the measured gain holds what the change saves elsewhere, too
        severity=finding.severity if faster else Severity.INFO,
        confidence=1.0,
        change=best.paste if faster else finding.change,
        measured=best.name,
        coverage=None,
    )
