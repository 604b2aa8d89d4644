"""Gives findings the intervals that changes of their kind have kept to (docs/adr/0053)."""

from collections.abc import Sequence
from dataclasses import replace

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.savings.conformal import (
    Calibration,
    Estimate,
    Pair,
    calibration,
)
from lightning_gpuprof.findings.engine import MOST_FRAC, severity_of, step_of
from lightning_gpuprof.findings.grade import WARNING_FRAC
from lightning_gpuprof.findings.model import Finding, Range
from lightning_gpuprof.findings.ranking import ranked

LEAST_FRAC = WARNING_FRAC
"""Smaller savings keep the interval of their model: next to no such change was measured, and how
far the large ones were off would be many times what a small cause takes."""


def calibrated(
    findings: Sequence[Finding],
    run: RunResults,
    table: Calibration | None = None,
    further: Sequence[Pair] = (),
) -> list[Finding]:
    """Return findings, ranked anew, with savings as far off as such estimates were before.

    Args:
        findings: Findings with the intervals of their models.
        run: The run that they are about.
        table: The pairs to calibrate by; by default those that this version comes with.
        further: Pairs to calibrate by beside these.
    """
    pairs = calibration() if table is None else table
    if further:
        pairs = Calibration((*pairs.pairs, *further))
    return ranked(_calibrated(finding, run, pairs) for finding in findings)


def device_of(run: RunResults) -> str:
    """Return the type of the device that a run trained on."""
    return "cpu" if run.start.device is None else run.start.device.type


def estimate_of(finding: Finding, run: RunResults) -> Estimate | None:
    """Return what a finding's model expects of the step; None if it claims no saving."""
    base_ns, saving = step_of(finding, run), finding.saving_ns
    if not base_ns or not saving.high:
        return None
    kept_ns = (1 - MOST_FRAC) * base_ns
    return Estimate(
        step_ns=base_ns,
        least_ns=max(kept_ns, base_ns - saving.high),
        likely_ns=max(kept_ns, base_ns - finding.likely_ns),
        most_ns=max(kept_ns, base_ns - saving.low),
        busy_frac=run.facts.busy_frac,
    )


def _calibrated(finding: Finding, run: RunResults, table: Calibration) -> Finding:
    estimate = estimate_of(finding, run)
    if estimate is None or finding.likely_ns < LEAST_FRAC * estimate.step_ns:
        return finding
    after = table.step_after(finding.id, device_of(run), estimate)
    base_ns, most_ns = estimate.step_ns, MOST_FRAC * estimate.step_ns
    saving = Range(
        low=round(min(max(0.0, base_ns - after.most_ns), most_ns)),
        high=round(min(max(0.0, base_ns - after.least_ns), most_ns)),
    )
    risen_ns = max(0, saving.high - finding.saving_ns.high)
    return replace(
        finding,
        saving_ns=saving,
        likely_ns=min(max(finding.likely_ns, saving.low), saving.high),
        beyond_ns=finding.beyond_ns + risen_ns,
        indirect_ns=max(0, finding.indirect_ns - risen_ns),
        severity=severity_of(finding, saving, run),
        coverage=after.coverage,
    )
