"""What all findings of a report save together: the rest of the step is what no rule explains."""

from collections.abc import Sequence

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.savings.run_what_if import Claim, StepEstimate, without
from lightning_gpuprof.findings.model import Finding


def together(results: RunResults, findings: Sequence[Finding]) -> StepEstimate | None:
    """Return the step without all that these findings claim; None where none claims any time."""
    claims = [_claim(results, one) for one in findings if one.saving_ns.high]
    if not claims or results.step_ns is None:
        return None
    phases = {
        phase.value: one.per_step.mean_ns for phase, one in results.phases.items() if one.per_step
    }
    return without(claims, step_ns=results.step_ns, phase_ns=phases)


def _claim(results: RunResults, finding: Finding) -> Claim:
    parts = {
        (part.phase.value, part.name) for one in results.phases for part in results.parts_of(one)
    }
    places = tuple(
        f"{where.phase}/{where.name}" if (where.phase, where.name) in parts else where.phase
        for where in finding.where
        if where.phase is not None
    )
    return Claim(finding.id, places, finding.saving_ns.low, finding.saving_ns.high)
