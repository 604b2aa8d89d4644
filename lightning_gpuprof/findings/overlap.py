"""Suppresses findings whose time another finding explains better, so that no time counts twice.

A finding suppresses another if it accounts for the other's saving. It says so itself
(`Finding.explains`), or it names a cause at a line where the other only knows that the host is
busy.
"""

from collections.abc import Sequence

from lightning_gpuprof.findings.model import Abstained, Finding, Place, When
from lightning_gpuprof.records.phases import LOADER_HOOKS

GENERAL = ("host-sync", "slow-python", "small-kernels", "host-bound", "costly-line")
"""Findings that know that the host is busy at a line, but not why; the most specific first."""
UNEXPLAINED = "unexplained-share"
"""This finding knows whose time a share of the run is. Any other finding about it knows more."""
HALF = 0.5
"""A finding explains a share if its cause takes this part of it."""
_OWNERS = ("callback:", "logger:")


def without_overlap(findings: Sequence[Finding]) -> tuple[list[Finding], list[Abstained]]:
    """Return the findings that stay, and the suppressed ones with what suppresses them.

    A suppressed finding suppresses no other.
    """
    staying: list[Finding] = []
    suppressed: list[Abstained] = []
    for finding in findings:
        front = _suppressor(finding, findings)
        if front is None:
            staying.append(finding)
        else:
            reason = f"{front.id} covers the same time"
            suppressed.append(Abstained(finding.id, reason, covered_by=front.id))
    return staying, suppressed


def _suppressor(finding: Finding, findings: Sequence[Finding]) -> Finding | None:
    """Return the first finding that suppresses another and is not suppressed itself."""
    candidates = (
        other
        for other in findings
        if other is not finding and _explains_more(other, finding, findings)
    )
    return next((other for other in candidates if _suppressor(other, findings) is None), None)


def _explains_more(front: Finding, back: Finding, findings: Sequence[Finding]) -> bool:
    """Return whether `front` accounts for the time of `back` and knows more about it."""
    if UNEXPLAINED in (front.id, back.id):
        return front.id != back.id == UNEXPLAINED and _explains_share(front, back)
    if front.saving_ns.high < back.saving_ns.middle:
        return False  # `back` has more time than `front` explains
    if back.worth_a_change and not front.worth_a_change:
        return False
    if back.id in front.explains and (same_line(back, front) or _covers(front, back, findings)):
        return True
    return front.id not in back.explains and _is_more_specific(front, back)


def _explains_share(front: Finding, share: Finding) -> bool:
    """Return whether a finding is about most of the time of a share of the run."""
    (place,), between = share.places[:1], share.when is When.BETWEEN
    if front.when is (When.IN_STEPS if between else When.BETWEEN):
        return False  # it is about other times
    cause, whole = front.cause_ns or front.saving_ns, share.cause_ns or share.saving_ns
    names = {_part(other) for other in front.places if other.phase == place.phase}
    if not names or cause.high < HALF * whole.high:
        return False
    if place.name is None or place.name in names:
        return True
    # A finding about a whole phase is not about the hooks that make loaders, or run between epochs.
    return None in names and not between and place.name not in LOADER_HOOKS


def _lines(finding: Finding) -> set[tuple[str, int | None]]:
    return {(place.file, place.line) for place in finding.places if place.file}


def same_line(finding: Finding, other: Finding) -> bool:
    """Return whether two findings name a line of the program in common."""
    return bool(_lines(finding) & _lines(other))


def _is_more_specific(front: Finding, back: Finding) -> bool:
    """Return whether `back` is a general finding about a line that `front` knows more about."""
    if back.id not in GENERAL or front.id in GENERAL[GENERAL.index(back.id) :]:
        return False
    if front.when is When.BETWEEN and back.when is When.IN_STEPS:
        return False  # it is about other times
    if back.id == "host-sync":
        # Every line that reads a value needs a change, so all of them must be named.
        return same_line(back, front) and _lines(back) <= _lines(front)
    return same_line(back, front)


def _covers(front: Finding, back: Finding, findings: Sequence[Finding]) -> bool:
    """Return whether every place of `back` is in a phase, or a part of one, that `front` names.

    A finding that names places outside all phases, such as a thread, explains time anywhere.
    """
    named = [(place.phase, place.name) for place in front.places if place.phase and not place.file]
    if not named:
        in_no_phase = bool(front.places) and not any(place.phase for place in front.places)
        return front.saving_ns.high > 0 and (in_no_phase or not back.saving_ns.high)
    if not back.places:
        return back.saving_ns.high == 0
    covered = all(
        any(
            place.phase == phase and (_part(place) is None or name in (None, _part(place)))
            for phase, name in named
        )
        for place in back.places
    )
    return covered and not _is_one_of_several(back, front, findings)


def _is_one_of_several(back: Finding, front: Finding, findings: Sequence[Finding]) -> bool:
    """Return whether `front` names a whole phase in which it explains other parts than `back`."""
    own = {(place.phase, place.name) for place in back.places}
    whole_phases = {place.phase for place in front.places if not place.file and not place.name}
    whole_phases &= {phase for phase, _ in own}
    parts = [
        place
        for finding in findings
        if finding.id in front.explains
        for place in finding.places
        if place.name
    ]
    return any(part.phase in whole_phases and (part.phase, part.name) not in own for part in parts)


def _part(place: Place) -> str | None:
    """Return the part of a phase that a place names, without the prefix of its owner."""
    if place.name in ("user", "metric", "lightning"):
        return None
    for owner in _OWNERS:
        if place.name and place.name.startswith(owner):
            return place.name.removeprefix(owner)
    return place.name
