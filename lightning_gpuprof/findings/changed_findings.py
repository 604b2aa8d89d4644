"""Which findings of a run another run of the same program does not have."""

from collections import Counter
from collections.abc import Sequence, Set

from lightning_gpuprof.findings.model import Finding

NEARLY_GONE = 0.1
"""A finding is gone, too, if so little is left of the saving that was expected of its change."""


def findings_missing_in(
    other: Sequence[Finding], findings: Sequence[Finding]
) -> tuple[Finding, ...]:
    """Return those of `findings` that `other` does not have, or only a tenth of.

    A callback that runs once in 50 steps, as advised, still takes some time, which another report
    may list.
    """
    by_place = {"slow-callback"}
    for side in (findings, other):
        counts = Counter(finding.id for finding in side)
        by_place |= {id for id, count in counts.items() if count > 1}
    there = {_key(finding, by_place): finding for finding in other}
    return tuple(
        finding
        for finding in findings
        if (left := there.get(_key(finding, by_place))) is None or _is_nearly_gone(finding, left)
    )


def _is_nearly_gone(finding: Finding, left: Finding) -> bool:
    return finding.worth_a_change and left.likely_ns < NEARLY_GONE * finding.likely_ns


def _key(finding: Finding, by_place: Set[str]) -> tuple[str | None, ...]:
    """Return what identifies a finding: its id, and its place if a run has several of its kind.

    The line's text stands for its number, which any edit above it changes. Where there is a single
    finding of a kind, its place is only the most frequent one, which may differ between runs.
    """
    if finding.id not in by_place or not finding.places:
        return (finding.id,)
    first = finding.places[0]
    return finding.id, first.phase, first.name, first.source
