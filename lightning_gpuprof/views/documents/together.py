"""What all findings of a report save together: the rest of the step is what no rule explains."""

from collections.abc import Mapping, Sequence

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.savings.run_what_if import (
    Claim,
    StepEstimate,
    claimed_places,
    without,
)
from lightning_gpuprof.findings.model import Finding, When


def together(results: RunResults, findings: Sequence[Finding]) -> StepEstimate | None:
    """Return the step without all that these findings claim; None where none claims any time."""
    claiming = [one for one in findings if one.saving_ns.high]
    if not claiming or results.step_ns is None:
        return None
    phases = {
        phase.value: one.per_step.mean_ns for phase, one in results.phases.items() if one.per_step
    }
    claims = [_claim(results, one, phases) for one in claiming if one.when is not When.BETWEEN]
    return without(claims, step_ns=results.step_ns, phase_ns=phases)


def _claim(results: RunResults, finding: Finding, phase_ns: Mapping[str, int]) -> Claim:
    parts = {
        (part.phase.value, part.name) for one in results.phases for part in results.parts_of(one)
    }
    low, high = finding.saving_ns.low, finding.saving_ns.high
    phases = {where.phase for where in finding.where if where.phase is not None}
    if finding.when is When.ALSO_BETWEEN:  # of this no more than such phases take of a steady step
        within_ns = sum(phase_ns.get(phase, 0) for phase in phases)
        low, high = min(low, within_ns), min(high, within_ns)
    places = claimed_places(((at.phase, at.name) for at in finding.where), parts)
    return Claim(finding.id, places, low, high)
