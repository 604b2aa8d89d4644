"""Keeps two findings from telling the same milliseconds twice: one of them steps back.

Rules look at a run each by itself, so what one calls much Python at a line another knows the reason
of. The one that says more about the cause stays, if it accounts for what the other would save.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from lightning_gpuprof.findings.model import Abstained, Finding

LEFT_OVER = ("host-sync", "slow-python", "small-kernels", "host-bound")
"""They find that there is much work of the host's at a line, not why; the later the less they say.
Whatever else names the line knows a reason."""
MOST_KEPT = 0.5
"""As in `looks/scores.py`: of what is used by more than half nothing is said."""
_WHOSE = ("callback:", "logger:")
_PARTS = ("slow-callback", "slow-epoch-end", "slow-logging", "slow-checkpoint", "data-wait")
_GROWS = ("growing-cost", "memory-growth")


class Pair(NamedTuple):
    """Findings that step back behind others, where both tell of the same, and why."""

    back: tuple[str, ...]
    front: tuple[str, ...]
    same: Callable[[Finding, Finding], bool]
    why: str


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
        why = _why(back, front)
        if why is None or _one_of_several(back, front, found):
            continue
        if _behind(front, found) is None:
            return front, why
    return None


def _why(back: Finding, front: Finding) -> str | None:
    if front.saving_ns.high < back.saving_ns.middle:
        return None  # there is more to it
    if back.worth_a_change and not front.worth_a_change:
        return None
    pairs = (one for one in PAIRS if back.id in one.back and front.id in one.front)
    known = next((one.why for one in pairs if one.same(back, front)), None)
    if known is None and _names_left_over(back, front):
        return "it names that line, and says what is done there"
    return known


def _names_left_over(back: Finding, front: Finding) -> bool:
    if back.id not in LEFT_OVER or front.id in LEFT_OVER[LEFT_OVER.index(back.id) :]:
        return False
    lines = {(one.file, one.line) for one in front.where if one.file}
    known = [(one.file, one.line) in lines for one in back.where if one.file]
    # Each line that reads is one to change: none goes untold for another that is named.
    return any(known) and (back.id != "host-sync" or all(known))


def _same_part(back: Finding, front: Finding) -> bool:
    """Tell whether each place of `back` is in a phase, or the part of one, that `front` names."""
    named = [(one.phase, one.name) for one in front.where if one.phase and not one.file]
    places = [(one.phase, _part(one.name)) for one in back.where]
    return bool(places) and all(
        any(phase == of and (part is None or name in (None, part)) for of, name in named)
        for phase, part in places
    )


def _same_name(back: Finding, front: Finding) -> bool:
    return _same_part(back, front) and any(one.name for one in front.where)


def _one_of_several(back: Finding, front: Finding, found: Sequence[Finding]) -> bool:
    """Tell whether `front` only says that a phase grows, of which several parts take time."""
    if back.id not in _PARTS or front.id not in _GROWS:
        return False
    own = {(one.phase, one.name) for one in back.where}
    whole = {at.phase for at in front.where if not at.file and not at.name}
    whole &= {phase for phase, _ in own}
    named = [at for one in found if one.id in _PARTS for at in one.where if at.name]
    return any(at.phase in whole and (at.phase, at.name) not in own for at in named)


def _part(name: str | None) -> str | None:
    """Return the part of a phase that a name means; None of what is not told apart by parts.

    The sync detector says whose a line is: `callback:Slow`, or `user` of the module itself.
    """
    whose = next((mark for mark in _WHOSE if name and name.startswith(mark)), None)
    if name is None or whose is None:
        return None if name in ("user", "metric", "lightning") else name
    return name.removeprefix(whose)


def _always(back: Finding, front: Finding) -> bool:
    return True


def _saves_more(back: Finding, front: Finding) -> bool:
    return front.saving_ns.counted_on >= back.saving_ns.counted_on


def _keeps_graphs(back: Finding, front: Finding) -> bool:
    return not back.saving_ns.high and "backward_last_ns" in front.evidence


def _stands_still(back: Finding, front: Finding) -> bool:
    return "idle_ns" in front.evidence


def _is_padding(back: Finding, front: Finding) -> bool:
    """Tell whether most of the places that are no padding are used."""
    filled = 1.0 - front.evidence["padding_frac"]
    return back.evidence["kept_frac"] > MOST_KEPT * filled


PAIRS = (
    Pair(
        _PARTS,
        _GROWS,
        _same_part,
        "what takes longer each time is to be kept from growing, however often it comes",
    ),
    Pair(
        ("host-sync", "step-time-jitter"),
        ("slow-callback", "slow-logging"),
        _same_part,
        "what is done there in each step, or in one of many, is timed by its name",
    ),
    Pair(
        ("slow-logging",),
        ("frequent-validation",),
        _same_name,
        "it names the call as most of validation",
    ),
    Pair(
        ("memory-growth",),
        ("retained-graph",),
        _keeps_graphs,
        "graphs of earlier steps are kept, and the backward pass goes through them",
    ),
    Pair(
        ("unfused-optimizer",),
        ("dense-embedding",),
        _saves_more,
        "most of the update is of the table, and fused ones take no sparse gradients",
    ),
    Pair(
        ("unused-scores",),
        ("padded-batches",),
        _is_padding,
        "the places whose scores nobody uses are the padding",
    ),
    Pair(
        ("slow-python", "host-bound", "small-kernels"),
        ("debugging-left-on",),
        _always,
        "all of Python is slower while it is on",
    ),
    Pair(
        ("slow-python", "host-bound", "small-kernels"),
        ("thread-contention",),
        _stands_still,
        "each operator waits until the other thread lets go of Python's lock",
    ),
)
