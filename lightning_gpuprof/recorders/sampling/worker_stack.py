"""Where a DataLoader's worker process is, read off the stack of its main thread."""

from enum import Enum
from types import FrameType
from typing import NamedTuple

from lightning_gpuprof.adapters.frames import WORKER_LOOP
from lightning_gpuprof.recorders.sampling.library_calls import called_library
from lightning_gpuprof.recorders.sampling.stack_lines import At, kind_of, line_of, name_of, outwards
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.session.places import package_of

_WORKS, _WAITS = "fetch", "get"
"""The functions in which it makes a batch, and gets the next indices."""
_USER = ""


class Doing(Enum):
    """Activity of a worker."""

    WORK = "work"
    WAIT = "wait"
    """For work: the training process has all the batches that it asked for."""
    HANDOVER = "handover"
    """Whatever else its loop does, above all giving away a batch."""


class Seen(NamedTuple):
    """A sample of a worker; `at` is None unless it works, and has no file in others' code."""

    doing: Doing
    at: At | None = None


def where_in_worker(frame: FrameType | None) -> Seen | None:
    """Return what a worker's main thread does, given its innermost frame; None outside its loop.

    Reads names of functions and files, never values.
    """
    inside: list[FrameType] = []
    for each in outwards(frame):
        if each.f_code.co_name == WORKER_LOOP and package_of(each.f_code.co_filename) != _USER:
            return _seen(inside)
        inside.append(each)
    return None


def _seen(inside: list[FrameType]) -> Seen:
    """Classify the frames inside of a worker's loop, innermost first."""
    called = inside[-1].f_code.co_name if inside else ""
    if called == _WAITS:
        return Seen(Doing.WAIT)
    if called != _WORKS:
        return Seen(Doing.HANDOVER)
    work = inside[:-1]
    packages = [package_of(each.f_code.co_filename) for each in work]
    if _USER not in packages:
        callee = name_of(work[-1]) if work else None
        return Seen(Doing.WORK, At(Phase.DATA_WAIT, "", 0, "", callee, kind_of(work)))
    users, calls = work[packages.index(_USER)], work[: packages.index(_USER)]
    callee, kind = name_of(calls[-1]) if calls else called_library(users), kind_of(calls)
    if not calls and callee is not None:
        kind = "python"
    code = users.f_code
    at = At(Phase.DATA_WAIT, code.co_filename, line_of(users), code.co_name, callee, kind)
    return Seen(Doing.WORK, at)
