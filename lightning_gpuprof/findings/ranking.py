"""Ranks findings by the saving that can be counted on, causes before their effects."""

from collections.abc import Iterable

from lightning_gpuprof.findings.model import Finding, Severity
from lightning_gpuprof.findings.overlap import LEFT_OVER

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
    lines = {(at.file, at.line) for at in of.where if at.file}
    named = any((at.file, at.line) in lines for at in reason.where if at.file)
    return named and reason.saving_ns.high >= MOST * of.saving_ns.middle


def _rank(finding: Finding) -> tuple[bool, bool, float, float]:
    counted_on = finding.saving_ns.counted_on * finding.confidence
    generic, info = finding.id == GENERIC, finding.severity is Severity.INFO
    return (generic, info, -counted_on, -finding.confidence)
