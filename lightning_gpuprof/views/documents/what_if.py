"""Estimates a step without the causes of some findings, counting no time twice."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lightning_gpuprof.errors import RecordError
from lightning_gpuprof.findings.model import When
from lightning_gpuprof.views.documents.report import load_report

_UNNAMED = ("forward", "backward", "optimizer_step")
"""Where a claim lies that names no phase: the safe guess, for it then overlaps most others."""


@dataclass(frozen=True)
class Claim:
    """A saving that a finding promises per step, and the places that its time lies in.

    `places` are phases ("forward") or named parts of one ("callbacks/EMA").
    """

    id: str
    places: tuple[str, ...]
    low_ns: int
    high_ns: int


@dataclass(frozen=True)
class StepEstimate:
    """A step with some claims met: its time and what is saved, low to high."""

    step_ns: int
    step_low_ns: int
    step_high_ns: int

    @property
    def saving_low_ns(self) -> int:
        """The least that is saved."""
        return self.step_ns - self.step_high_ns

    @property
    def saving_high_ns(self) -> int:
        """The most that is saved."""
        return self.step_ns - self.step_low_ns


def without(claims: Sequence[Claim], *, step_ns: int, phase_ns: Mapping[str, int]) -> StepEstimate:
    """Combine claims.

    Claims in different places add up. Claims in the same place may mean the same time: together
    they save at least the larger, and at most their sum or all of that place.

    >>> a = Claim("a", ("forward",), 10, 30)
    >>> b = Claim("b", ("forward",), 20, 40)
    >>> found = without([a, b], step_ns=100, phase_ns={"forward": 60})
    >>> found.step_low_ns, found.step_high_ns
    (40, 80)
    """
    low = high = 0
    for group in _overlapping(claims):
        phases = {place.partition("/")[0] for claim in group for place in _places(claim)}
        whole = sum(phase_ns.get(phase, 0) for phase in phases)
        largest = max(claim.high_ns for claim in group)
        low += max(claim.low_ns for claim in group)
        high += min(sum(claim.high_ns for claim in group), max(whole, largest))
    return StepEstimate(
        step_ns=step_ns,
        step_low_ns=max(0, step_ns - high),
        step_high_ns=max(0, step_ns - min(low, high)),
    )


def _places(claim: Claim) -> tuple[str, ...]:
    return claim.places or _UNNAMED


def _overlapping(claims: Sequence[Claim]) -> list[list[Claim]]:
    groups: list[list[Claim]] = []
    for claim in claims:
        touching = [group for group in groups if any(_share(claim, other) for other in group)]
        groups = [group for group in groups if group not in touching]
        groups.append([one for group in touching for one in group] + [claim])
    return groups


def _share(a: Claim, b: Claim) -> bool:
    return any(
        x == y or x.startswith(f"{y}/") or y.startswith(f"{x}/")
        for x in _places(a)
        for y in _places(b)
    )


def what_if(run: str, removing: str | Sequence[str], *, session: int | None = None) -> StepEstimate:
    """Estimate a run's step with the causes of some findings removed.

    Args:
        run: A run's log dir.
        removing: Ids of findings of its report, such as `"data-wait"`.
        session: Session number; by default the last fit that recorded steps.

    Returns:
        The step and what is saved of it, each from low to high, in ns.

    Raises:
        RecordError: There is no such run, or its report has no such finding.
    """
    wanted = [removing] if isinstance(removing, str) else list(removing)
    return estimate(load_report(run, session=session, analyse=True).payload(), wanted)


def estimate(document: Mapping[str, Any], removing: Sequence[str]) -> StepEstimate:
    """Estimate from a `report --json` document.

    Raises:
        RecordError: The report has no such finding, or no step.
    """
    known = {finding["id"] for finding in document["findings"] if finding["saving_ns"]["high"]}
    for finding_id in removing:
        if finding_id not in known:
            raise RecordError(
                f"This report claims no time for {finding_id!r}. It does for: "
                f"{', '.join(sorted(known)) or 'nothing'}."
            )
    return _estimate(document, [one for one in document["findings"] if one["id"] in removing])


def together(document: Mapping[str, Any]) -> StepEstimate | None:
    """Return the step without the time of all findings; None where none claims any time."""
    claiming = [finding for finding in document["findings"] if finding["saving_ns"]["high"]]
    if not claiming or document["steps"]["step_ns"] is None:
        return None
    return _estimate(document, claiming)


def _estimate(document: Mapping[str, Any], findings: Sequence[Mapping[str, Any]]) -> StepEstimate:
    step_ns = document["steps"]["step_ns"]
    if step_ns is None:
        raise RecordError("No training step was recorded, so there is nothing to estimate.")
    phase_ns = {name: row["mean_ns"] or 0 for name, row in document["phases"].items()}
    claims = [_claim(f, document, phase_ns) for f in findings if f["when"] != When.BETWEEN]
    return without(claims, step_ns=step_ns, phase_ns=phase_ns)


def _claim(
    finding: Mapping[str, Any], document: Mapping[str, Any], phase_ns: Mapping[str, int]
) -> Claim:
    rows = document["phases"].items()
    parts = {(phase, part["name"]) for phase, row in rows for part in row.get("parts", ())}
    where = [(at["phase"], at.get("name")) for at in finding["where"] if at.get("phase")]
    places = (f"{at[0]}/{at[1]}" if at in parts else at[0] for at in where)
    low, high = finding["saving_ns"]["low"], finding["saving_ns"]["high"]
    if finding["when"] == When.ALSO_BETWEEN:  # no more than such phases take of a steady step
        within = sum(phase_ns.get(phase, 0) for phase in {phase for phase, _ in where})
        low, high = min(low, within), min(high, within)
    return Claim(finding["id"], tuple(places), low, high)
