"""What a step would take with several costs removed, counting no time twice."""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass

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


def claimed_places(
    where: Iterable[tuple[str | None, str | None]], parts: Container[tuple[str, str]]
) -> tuple[str, ...]:
    """Return the places of a claim.

    Args:
        where: Phase and name of each place that its finding names.
        parts: Phase and name of each named part of a phase.

    >>> claimed_places([("callbacks", "EMA"), ("forward", "aten::mm")], {("callbacks", "EMA")})
    ('callbacks/EMA', 'forward')
    """
    return tuple(
        f"{phase}/{name}" if (phase, name) in parts else phase
        for phase, name in where
        if phase is not None
    )


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
