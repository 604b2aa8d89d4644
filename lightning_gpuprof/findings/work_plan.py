"""The findings as a plan of work: quick wins first, then what takes longer."""

from collections.abc import Sequence
from dataclasses import dataclass

from lightning_gpuprof.findings.model import Effort, Finding, Horizon
from lightning_gpuprof.findings.runner import load_rule


@dataclass(frozen=True)
class PlanItem:
    """One change to make, its impact (the finding's saving), difficulty and risk."""

    finding: Finding
    effort: Effort


def make_plan(findings: Sequence[Finding]) -> tuple[PlanItem, ...]:
    """Order findings by when to make their change; within that, as they are ranked."""
    items = [PlanItem(finding, load_rule(finding.id).EFFORT) for finding in findings]
    order = list(Horizon)
    return tuple(sorted(items, key=lambda item: order.index(item.effort.horizon)))
