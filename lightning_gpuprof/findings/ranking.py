"""Ranks findings by the saving to count on, as models expect it or as trials have measured it."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from lightning_gpuprof.findings.model import Finding, Range, Severity
from lightning_gpuprof.findings.overlap import LEFT_OVER, same_line
from lightning_gpuprof.records.trials import FASTER, Trial, Trials

GENERIC = "costly-line"
"""Comes after every other finding."""
MOST = 0.5
"""A reason that may account for half of what a finding saves is most of it."""


def ranked(found: Iterable[Finding]) -> list[Finding]:
    """Return findings in the order in which to make their changes.

    By `Range.counted_on` times the rule's confidence (docs/adr/0030), `info` after the rest. What
    finds the host busy at a line, not why, comes after what knows a reason for most of it there.
    """
    ordered = sorted(found, key=_rank)
    for one in [each for each in ordered if each.id in LEFT_OVER]:
        reason = next((each for each in ordered if _is_reason(each, one)), None)
        if reason is not None and ordered.index(reason) > ordered.index(one):
            ordered.remove(one)
            ordered.insert(ordered.index(reason) + 1, one)
    return ordered


def _is_reason(reason: Finding, of: Finding) -> bool:
    if reason.id in LEFT_OVER or reason.worth_a_change < of.worth_a_change:
        return False
    return same_line(reason, of) and reason.saving_ns.high >= MOST * of.saving_ns.middle


def _rank(finding: Finding) -> tuple[bool, bool, float, float]:
    counted_on = finding.saving_ns.counted_on * finding.confidence
    generic, info = finding.id == GENERIC, finding.severity is Severity.INFO
    return (generic, info, -counted_on, -finding.confidence)


def with_trials(findings: Sequence[Finding], trials: Trials | None) -> list[Finding]:
    """Return findings, ranked anew, with the gain and the change of the best trial of each."""
    measured = [] if trials is None else [one for one in trials.trials if one.gain_ns is not None]
    replaced = [_measured(finding, measured) for finding in findings]
    return ranked(replaced) if measured else replaced


def _measured(finding: Finding, trials: Sequence[Trial]) -> Finding:
    own = [one for one in trials if finding.id in one.findings]
    if not own:
        return finding
    # A change that alters results is a choice: it speaks for a finding where there is no other.
    best = max(own, key=lambda one: (not one.alters, one.gain_frac or 0.0))
    low, high = best.gain_ns or (0, 0)
    faster = best.verdict == FASTER
    return replace(
        finding,
        saving_ns=(saving := Range(low=max(0, low), high=max(0, high))),
        likely_ns=round(saving.middle),
        indirect_ns=0,
        cause_ns=None,  # what a change gains elsewhere as well is in the figure
        severity=finding.severity if faster else Severity.INFO,
        confidence=1.0,
        change=best.paste if faster else finding.change,
        measured=best.name,
    )
