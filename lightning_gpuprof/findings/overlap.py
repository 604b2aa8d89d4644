"""Keeps two findings from claiming the same milliseconds: the less specific one steps back.

The more specific one stays if it accounts for the other's saving: it says so itself
(`Finding.explains`), or it names a line where the other only sees a busy host.
"""

from collections.abc import Sequence

from lightning_gpuprof.findings.model import Abstained, Finding, Where

LEFT_OVER = ("host-sync", "slow-python", "small-kernels", "host-bound", "costly-line")
"""They find the host busy at a line, not why; later entries say less."""
_WHOSE = ("callback:", "logger:")


def without_overlap(found: Sequence[Finding]) -> tuple[list[Finding], list[Abstained]]:
    """Return the findings that stay, and for each other one behind which it steps back.

    One that has stepped back itself sends no other one back.
    """
    stay: list[Finding] = []
    back: list[Abstained] = []
    for one in found:
        front = _front(one, found)
        if front is None:
            stay.append(one)
        else:
            back.append(Abstained(one.id, f"{front.id} covers the same time"))
    return stay, back


def _front(back: Finding, found: Sequence[Finding]) -> Finding | None:
    """Return the finding behind which one steps back, if there is any."""
    fronts = (one for one in found if one is not back and _says_more(one, back, found))
    return next((one for one in fronts if _front(one, found) is None), None)


def _says_more(front: Finding, back: Finding, found: Sequence[Finding]) -> bool:
    if front.saving_ns.high < back.saving_ns.middle:
        return False  # there is more to it
    if back.worth_a_change and not front.worth_a_change:
        return False
    if back.id in front.explains and (same_line(back, front) or _covered(back, front, found)):
        return True
    return front.id not in back.explains and _names_left_over(back, front)


def _lines(finding: Finding) -> set[tuple[str, int | None]]:
    return {(at.file, at.line) for at in finding.where if at.file}


def same_line(one: Finding, other: Finding) -> bool:
    """Tell whether two findings name a line of the program in common."""
    return bool(_lines(one) & _lines(other))


def _names_left_over(back: Finding, front: Finding) -> bool:
    if back.id not in LEFT_OVER or front.id in LEFT_OVER[LEFT_OVER.index(back.id) :]:
        return False
    # Each line that reads is one to change: none goes untold for another that is named.
    named = same_line(back, front)
    return named and (back.id != "host-sync" or _lines(back) <= _lines(front))


def _covered(back: Finding, front: Finding, found: Sequence[Finding]) -> bool:
    """Tell whether each place of `back` is in a phase, or the part of one, that `front` names.

    A finding that names places in no phase, such as a thread, explains time anywhere.
    """
    named = [(at.phase, at.name) for at in front.where if at.phase and not at.file]
    places = [(at.phase, _part(at)) for at in back.where]
    if not named:
        anywhere = bool(front.where) and not any(at.phase for at in front.where)
        return front.saving_ns.high > 0 and (anywhere or not back.saving_ns.high)
    if not places:
        return back.saving_ns.high == 0
    covered = all(
        any(phase == of and (part is None or name in (None, part)) for of, name in named)
        for phase, part in places
    )
    return covered and not _one_of_several(back, front, found)


def _one_of_several(back: Finding, front: Finding, found: Sequence[Finding]) -> bool:
    """Tell whether `front` names only a phase of which several parts that it explains take time."""
    own = {(at.phase, at.name) for at in back.where}
    whole = {at.phase for at in front.where if not at.file and not at.name}
    whole &= {phase for phase, _ in own}
    parts = [at for one in found if one.id in front.explains for at in one.where if at.name]
    return any(at.phase in whole and (at.phase, at.name) not in own for at in parts)


def _part(at: Where) -> str | None:
    """Return the part of a phase that a place names."""
    if at.name in ("user", "metric", "lightning"):
        return None
    whose = next((mark for mark in _WHOSE if at.name and at.name.startswith(mark)), None)
    return (at.name or "").removeprefix(whose) if whose else at.name
