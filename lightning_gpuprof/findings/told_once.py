"""Keeps two findings from telling the same milliseconds twice: one of them steps back.

Rules look at a run each by itself, so what one calls much Python at a line another knows the reason
of. The one that says more about the cause stays, if it accounts for what the other would save: one
that says so itself, of the time or a line that it names (`Finding.explains`), or any that names a
line of which the other only says that there is much work of the host's.
"""

from collections.abc import Sequence

from lightning_gpuprof.findings.model import Abstained, Finding

LEFT_OVER = ("host-sync", "slow-python", "small-kernels", "host-bound")
"""They find that there is much work of the host's at a line, not why; the later the less they say.
Whatever else names the line knows a reason."""
NAMED_LINE = "it names that line, and says what is done there"
EXPLAINED = "it says more of the cause"
_WHOSE = ("callback:", "logger:")


def told_once(found: Sequence[Finding]) -> tuple[list[Finding], list[Abstained]]:
    """Return the findings that stay, and for each other one behind which it steps back.

    One that has stepped back itself sends no other one back.
    """
    stay: list[Finding] = []
    back: list[Abstained] = []
    for one in found:
        pair = _behind(one, found)
        if pair is None:
            stay.append(one)
        else:
            front, why = pair
            back.append(Abstained(one.id, f"{front.id} tells of the same time: {why}"))
    return stay, back


def _behind(back: Finding, found: Sequence[Finding]) -> tuple[Finding, str] | None:
    for front in found:
        why = _why(back, front, found)
        if why is not None and _behind(front, found) is None:
            return front, why
    return None


def _why(back: Finding, front: Finding, found: Sequence[Finding]) -> str | None:
    if front.saving_ns.high < back.saving_ns.middle:
        return None  # there is more to it
    if back.worth_a_change and not front.worth_a_change:
        return None
    if back.id in front.explains and (_same_line(back, front) or _explained(back, front, found)):
        return EXPLAINED
    if front.id in back.explains:
        return None
    return NAMED_LINE if _names_left_over(back, front) else None


def _same_line(back: Finding, front: Finding) -> bool:
    lines = {(one.file, one.line) for one in front.where if one.file}
    return any((one.file, one.line) in lines for one in back.where if one.file)


def _names_left_over(back: Finding, front: Finding) -> bool:
    if back.id not in LEFT_OVER or front.id in LEFT_OVER[LEFT_OVER.index(back.id) :]:
        return False
    lines = {(one.file, one.line) for one in front.where if one.file}
    known = [(one.file, one.line) in lines for one in back.where if one.file]
    # Each line that reads is one to change: none goes untold for another that is named.
    return any(known) and (back.id != "host-sync" or all(known))


def _explained(back: Finding, front: Finding, found: Sequence[Finding]) -> bool:
    """Tell whether each place of `back` is in a phase, or the part of one, that `front` names.

    What names places in no phase, such as a thread, explains time anywhere, and what claims no time
    lies nowhere else.
    """
    named = [(one.phase, one.name) for one in front.where if one.phase and not one.file]
    places = [(one.phase, _part(one.name)) for one in back.where]
    if not named:
        anywhere = bool(front.where) and not any(one.phase for one in front.where)
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
    own = {(one.phase, one.name) for one in back.where}
    whole = {at.phase for at in front.where if not at.file and not at.name}
    whole &= {phase for phase, _ in own}
    parts = [at for one in found if one.id in front.explains for at in one.where if at.name]
    return any(at.phase in whole and (at.phase, at.name) not in own for at in parts)


def _part(name: str | None) -> str | None:
    """Return the part of a phase that a name means; None of what is not told apart by parts.

    The sync detector says whose a line is: `callback:Slow`, or `user` of the module itself.
    """
    whose = next((mark for mark in _WHOSE if name and name.startswith(mark)), None)
    if name is None or whose is None:
        return None if name in ("user", "metric", "lightning") else name
    return name.removeprefix(whose)
