"""Where a thread is: the user's line and the phase, read off its Python stack."""

import linecache
import os
from collections import Counter
from collections.abc import Iterator
from types import CodeType, FrameType
from typing import NamedTuple

from lightning_gpuprof.adapters.frames import (
    CHECKPOINT_FILE,
    EVALUATION_LOOP,
    FILES_OF_FILES,
    FORMATS_STACK,
    LIGHTNING_PACKAGES,
    LOADER_FILE,
    LOG_METHODS,
    LOOPS,
    MODULE_CALL,
    MODULE_CALLERS,
    MODULE_FILE,
    PHASE_BY_HOOK,
    PHASE_BY_LIGHTNING_FILE,
    PHASE_BY_LIGHTNING_FUNCTION,
    TRAINING_LOOP,
)
from lightning_gpuprof.recorders.sampling.checks import begins, since_check
from lightning_gpuprof.recorders.sampling.library_calls import (
    called_library,
    is_quick,
    operation_of,
)
from lightning_gpuprof.recorders.sampling.pacing import When
from lightning_gpuprof.records.lines import LineCount
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.runtime.places import (
    GPUPROF,
    USER,
    of_multiprocessing,
    package_in,
    shown_path,
)

MOST_LINES = 60
"""Lines kept: any other takes less than a sample in a hundred."""
_STAY_IN_VALIDATION = (Phase.CALLBACKS, Phase.LOGGING, Phase.CHECKPOINT, Phase.VALIDATION)
"""All else inside it is validation, as the timer has it: its batches, the module's hooks."""
LONG_NS = 200_000
"""A quick call that took this long was not quick: the time was in it."""
_TOOLS = {"torch", "python", GPUPROF, *LIGHTNING_PACKAGES}
"""Packages that run what the program gives them."""
_WAITING = ("threading.py", "queue.py")
"""Files of Python in which one thread waits for another."""
_LOGS = "call_to_log"
"""The function around a call that logs by a logger's `experiment`."""


class At(NamedTuple):
    """Where a thread is; `file` is empty where no frame of the user's own is known."""

    phase: Phase
    file: str
    line: int
    function: str
    callee: str | None
    kind: str | None
    operation: str | None = None
    spot: tuple[CodeType, int] | None = None
    """The innermost instruction, where that is of the user's own."""


def where_is(frame: FrameType | None) -> At | None:
    """Return where in a training step a thread is, given its innermost frame; None outside.

    Reads names of functions and files, never values: reading another thread's local variables
    would keep them alive.
    """
    users: FrameType | None = None
    phase: Phase | None = None
    called: list[FrameType] = []
    hook: bool | None = None
    before: str | None = None
    caller: FrameType | None = None
    again = logs = False
    alone: Phase | None = None  # the phase in an evaluation outside a fit
    inner: str | None = None
    for each in outwards(frame):
        code = each.f_code
        package = package_in(each)
        logs = logs or (users is None and package == GPUPROF and code.co_name == _LOGS)
        if package == "torch" and _runs(each, MODULE_FILE, *MODULE_CALLERS):
            if hook is None and before is not None:
                hook = before not in ("", "forward")
            caller = None
        elif caller is None and package == USER and phase is None:
            caller = each
        before = code.co_name if package == USER else ""
        if package == USER and phase is None and users is None:
            users = each
        elif users is None and phase is None and package != GPUPROF:
            called.append(each)
        recomputes = package == "torch" and _runs(each, CHECKPOINT_FILE)
        again = again or (phase is None and recomputes)
        found = _phase(each, package)
        if phase is None or (found is Phase.VALIDATION and phase not in _STAY_IN_VALIDATION):
            alone, phase = phase, found
        loop = _loop_of(each, package)
        inner = inner or loop
        if loop in TRAINING_LOOP:
            break
    else:
        if inner != EVALUATION_LOOP[0]:
            return None
        phase = alone if phase is Phase.VALIDATION else phase
    phase = phase or Phase.OTHER
    if users is None:
        return in_package(phase, called, each)
    if phase is Phase.CALLBACKS and caller is not None and hook is not None:
        # A callback that runs the model: the line is the callback's, not the model's.
        users, called = caller, []
    at = in_users(phase, users, called, frame)
    kind = at.kind
    if phase is Phase.BACKWARD and (again or hook is False):
        kind = "model"  # activations that are computed again
    if hook and kind not in ("wait", "workers", "log", "traceback"):
        kind = "hook"
    if logs and phase is Phase.FORWARD:
        kind = "log"
    if kind == "log" and phase is not Phase.VALIDATION:
        phase = Phase.LOGGING  # as the timer has it
    return at._replace(phase=phase, kind=kind)


def in_users(
    phase: Phase, users: FrameType, called: list[FrameType], innermost: FrameType | None
) -> At:
    """Return where a thread is, in a frame of the user's own that runs others, innermost first."""
    code = users.f_code
    callee = name_of(called[-1]) if called else called_library(users)
    kind = kind_of(called) if called or callee is None else "python"
    to_workers = [each for each in called if of_multiprocessing(each.f_code.co_filename)]
    if to_workers and not any(each.f_code.co_filename.endswith(LOADER_FILE) for each in called):
        callee, kind = name_of(to_workers[-1]), "workers"
    spot = (code, users.f_lasti) if next(outwards(innermost)) is users else None
    place = code.co_filename, line_of(users), code.co_name
    return At(phase, *place, callee, kind, operation_of(users), spot)


def line_counts(seen: Counter[At], doubts: Counter[At]) -> tuple[LineCount, ...]:
    """Return the lines of the user's own that were seen most often."""
    counts = [
        LineCount(
            phase=at.phase.value,
            file=shown_path(at.file),
            line=at.line,
            function=at.function,
            source=_source(at),
            callee=at.callee,
            kind=at.kind,
            count=count,
            operation=at.operation,
            doubt=doubts[at],
        )
        for at, count in seen.most_common()
        if at.file
    ]
    return tuple(counts[:MOST_LINES])


def in_package(phase: Phase, called: list[FrameType], around: FrameType) -> At:
    """Return where a thread is that is in no code of the user's own, which runs `around` at most.

    That is the outermost function of another package, at the user's line nearest to it.
    """
    packages = [package_in(each) for each in called]
    inside = next((n for n in reversed(range(len(called))) if packages[n] not in _TOOLS), None)
    if inside is None:
        callee = name_of(called[-1]) if called else None
        return At(phase, "", 0, "", callee, kind_of(called))
    frame = called[inside]
    near = (each for each in outwards(around) if package_in(each) == USER)
    users, name = next(near, frame), name_of(frame)
    kind = kind_of(called[: inside + 1])
    return At(phase, users.f_code.co_filename, line_of(users), name, name, kind)


def settled(at: At, when: When, number: int) -> tuple[At, bool]:
    """Return the place of a sample, and whether that may be another line as well.

    Where a check (`since_check`) let the sampler in soon, behind a loop's turn or a quick call, the
    sample stands for any line since the last check: one of them, by the sample's number.
    """
    spot, at = at.spot, at._replace(spot=None)
    if spot is None:
        return at, when.crowded
    lines, is_call = since_check(*spot)
    if set(lines) <= {at.line} or (is_call and (when.after_ns >= LONG_NS or not is_quick(*spot))):
        return at, when.crowded
    line = lines[number % len(lines)]
    if line != at.line:
        kind = None if at.kind == "python" else at.kind
        at = at._replace(line=line, callee=None, kind=kind, operation=None)
    return at, True


def line_of(frame: FrameType) -> int:
    """Return the line a frame is at; for a jump that the compiler made, the last line before it."""
    number: int | None = frame.f_lineno
    if number is not None:
        return number
    code = frame.f_code
    before = [line for start, _, line in code.co_lines() if line and start <= frame.f_lasti]
    return before[-1] if before else code.co_firstlineno


def _source(at: At) -> str:
    """Return the text of a line, and which function of a package ran there where it is not its."""
    source = linecache.getline(at.file, at.line).strip()
    return f"{source}  # in {at.function}".strip() if "." in at.function else source


def _phase(frame: FrameType, package: str) -> Phase | None:
    code = frame.f_code
    if package == USER or package in LIGHTNING_PACKAGES:
        found = PHASE_BY_HOOK.get(code.co_name)
        if found is not None:
            return found
    if package not in LIGHTNING_PACKAGES:
        return None
    by_function = PHASE_BY_LIGHTNING_FUNCTION.get(code.co_name)
    return by_function or PHASE_BY_LIGHTNING_FILE.get(os.path.basename(code.co_filename))


def _runs(frame: FrameType, file: str, *functions: str) -> bool:
    """Tell whether a frame runs one of these functions of a file; without any, what is in it."""
    code = frame.f_code
    named = not functions or code.co_name in functions
    return named and os.path.basename(code.co_filename) == file


def _loop_of(frame: FrameType, package: str) -> str | None:
    """Return the function of `LOOPS` that a frame runs."""
    code = frame.f_code
    if package not in LIGHTNING_PACKAGES:
        return None
    functions = LOOPS.get(os.path.basename(code.co_filename), ())
    return code.co_name if code.co_name in functions else None


def kind_of(called: list[FrameType]) -> str | None:
    """Tell what a user's line is in, from the frames inside it, innermost first."""
    if not called:
        return None
    if any(each.f_code.co_name == FORMATS_STACK for each in called):
        return "traceback"
    packages = [package_in(each) for each in called]
    calls_module = any(each.f_code.co_name == MODULE_CALL for each in called)
    innermost = os.path.basename(called[0].f_code.co_filename)
    if packages[0] == packages[-1] == "python" and innermost in _WAITING:
        return "wait"
    if packages[-1] in LIGHTNING_PACKAGES:
        return "log" if called[-1].f_code.co_name in LOG_METHODS else "lightning"
    if "torchmetrics" in packages:
        return "metric"
    if packages[-1] != "torch":
        # A step that calls its library's own (`super().training_step`) is the model's.
        if called[-1].f_code.co_name in PHASE_BY_HOOK:
            return "model"
        # So is what a library computes with torch.
        if not calls_module and packages[0] != "torch" and "torch" not in called[0].f_globals:
            return "python"
    if any(os.path.basename(each.f_code.co_filename) in FILES_OF_FILES for each in called):
        return "python"
    return "model" if calls_module else "torch"


def name_of(frame: FrameType) -> str:
    """Return a function's name with its package's, such as `json.load`."""
    code = frame.f_code
    module = str(frame.f_globals.get("__name__", "")).split(".")[0]
    return f"{module}.{code.co_name}" if module else code.co_name


def outwards(frame: FrameType | None) -> Iterator[FrameType]:
    """Go through a thread's frames, the innermost first; one that only begins is left out."""
    if frame is not None and begins(frame.f_code, frame.f_lasti):
        frame = frame.f_back
    while frame is not None:
        yield frame
        frame = frame.f_back
