"""Where a trial has measured what a finding's change gains, its figure replaces the model's."""

from collections.abc import Sequence
from dataclasses import replace

from lightning_gpuprof.findings.model import Finding, Range, Severity
from lightning_gpuprof.findings.ranking import ranked
from lightning_gpuprof.records.trials import FASTER, Trial, Trials


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
