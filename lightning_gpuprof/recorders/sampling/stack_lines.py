"""Reads from a thread's Python stack where the thread is: the user's line and the phase."""

import linecache
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from types import CodeType, FrameType
from typing import NamedTuple

from lightning_gpuprof.adapters.arguments import argument_of
from lightning_gpuprof.adapters.frames import (
    CHECKPOINT_FILE,
    EVALUATION_LOOP,
    FILE_ACCESS_FILES,
    FIT_LOOP,
    FIT_LOOP_FILE,
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
    TENSOR_PACKAGES,
    TRAINING_LOOP,
)
from lightning_gpuprof.recorders.sampling.library_calls import (
    called_library,
    is_quick,
    operation_of,
)
from lightning_gpuprof.recorders.sampling.pacing import SampleTiming
from lightning_gpuprof.recorders.sampling.switch_points import (
    has_just_begun,
    lines_since_switch_point,
)
from lightning_gpuprof.records.lines import COLLECTIVE, LineCount
from lightning_gpuprof.records.phases import BATCH_WORK, PHASES_IN_VALIDATION, Phase
from lightning_gpuprof.runtime.places import (
    GPUPROF,
    USER,
    is_in_multiprocessing,
    package_in,
    shown_path,
)

MAX_LINES = 60
"""The number of lines that are recorded. Any other line has less than a sample in a hundred."""
LONG_NS = 200_000
"""If a sample comes so late, a call that is usually quick was not: the time was spent in it."""
_TOOLS = {"torch", "python", GPUPROF, *LIGHTNING_PACKAGES}
"""Packages that run the functions that a program passes to them."""
_WAITING_FILES = ("threading.py", "queue.py")
"""Files of Python in which a thread waits for another."""
_LOGGING_CALL = "call_to_log"
"""The function that wraps calls which log by a logger's `experiment`."""
_COLLECTIVE = "wait_for_ranks"
"""The function that wraps waits for collective operations."""


class ThreadPlace(NamedTuple):
    """Where a thread is. `file` is empty if no frame belongs to the user's own code."""

    phase: Phase
    file: str
    line: int
    function: str
    callee: str | None
    kind: str | None
    operation: str | None = None
    instruction: tuple[CodeType, int] | None = None
    """The innermost instruction, if it belongs to the user's own code."""
    outside: bool = False
    """Whether the thread is between epochs, and in no step."""
    part: str | None = None
    """Outside of steps: the hook, or the class of the callback or logger (`LineCount.part`)."""
    entry: str | None = None
    """In `data_wait`: the user's function that the loader called (`LineCount.entry`)."""
    argument: str | None = None
    """The argument that asked for what Lightning or torch does here (`adapters/arguments.py`)."""


def place_in_loop(innermost: FrameType | None) -> ThreadPlace | None:
    """Return where in the training loop a thread is, given its innermost frame; None outside of it.

    This reads the names of functions and files only. Reading the values of another thread's local
    variables would keep them alive.
    """
    user_frame: FrameType | None = None
    frames_inside: list[FrameType] = []  # the frames that the user's frame has called
    phase: Phase | None = None
    phase_inside: Phase | None = None  # the phase before the last change to validation
    module_caller: FrameType | None = None  # the user's frame that calls a module
    in_module_hook: bool | None = None
    function_inside: str | None = None  # the user's function in the frame before, else empty
    recomputes = logs = waits = False
    innermost_loop: str | None = None
    outside = False
    hook: CodeType | None = None  # the user's outermost function
    in_loop: CodeType | None = None  # the user's outermost function inside of the loop
    argument: str | None = None
    for frame in frames_outwards(innermost):
        code = frame.f_code
        package = package_in(frame)
        if user_frame is None and package == GPUPROF:
            logs = logs or code.co_name == _LOGGING_CALL
            waits = waits or code.co_name == _COLLECTIVE
        if package == "torch" and _runs(frame, MODULE_FILE, *MODULE_CALLERS):
            if in_module_hook is None and function_inside is not None:
                in_module_hook = function_inside not in ("", "forward")
            module_caller = None
        elif module_caller is None and package == USER and phase is None:
            module_caller = frame
        function_inside = code.co_name if package == USER else ""
        hook = code if package == USER else hook
        in_loop = hook if innermost_loop is None else in_loop
        if argument is None and package in TENSOR_PACKAGES:
            argument = argument_of(code)
        if package == USER and phase is None and user_frame is None:
            user_frame = frame
        elif user_frame is None and phase is None and package != GPUPROF:
            frames_inside.append(frame)
        if phase is None and package == "torch" and _runs(frame, CHECKPOINT_FILE):
            recomputes = True
        phase_of_frame = _phase(frame, package)
        if phase is None or (
            phase_of_frame is Phase.VALIDATION and phase not in PHASES_IN_VALIDATION
        ):
            phase_inside, phase = phase, phase_of_frame
        loop = _loop_of(frame, package)
        innermost_loop = innermost_loop or loop
        if loop in TRAINING_LOOP:
            break
        if package in LIGHTNING_PACKAGES and _runs(frame, FIT_LOOP_FILE, FIT_LOOP):
            outside = True
            break
    else:
        # There is no training loop, so this can only be an evaluation outside a fit.
        if innermost_loop != EVALUATION_LOOP[0]:
            return None
        phase = phase_inside if phase is Phase.VALIDATION else phase
    phase = phase or Phase.OTHER
    if user_frame is None:
        place = place_in_package(phase, frames_inside, frame)
        part = (place.function or None) if outside else None
        return place._replace(outside=outside, part=part, argument=argument)
    if phase is Phase.CALLBACKS and module_caller is not None and in_module_hook is not None:
        # A callback runs the model: the line to show is the callback's, not the model's.
        user_frame, frames_inside = module_caller, []
    place = place_in_user_code(phase, user_frame, frames_inside, innermost)
    kind = place.kind
    if phase is Phase.BACKWARD and (recomputes or in_module_hook is False):
        kind = "model"  # activations are being recomputed
    if in_module_hook and kind not in ("wait", "workers", "log", "traceback"):
        kind = "hook"
    if waits and phase in BATCH_WORK:
        kind = COLLECTIVE
    if logs and phase is Phase.FORWARD:
        kind = "log"
    if kind == "log" and phase is not Phase.VALIDATION:
        phase = Phase.LOGGING  # as for the phase timer
    part = _part(phase, hook) if outside else None
    entry = entry_of(in_loop) if phase is Phase.DATA_WAIT and not outside else None
    return place._replace(
        phase=phase, kind=kind, outside=outside, part=part, entry=entry, argument=argument
    )


def _part(phase: Phase, hook: CodeType | None) -> str | None:
    """Return the name of a hook, or the class of the callback or logger that it belongs to.

    Before Python 3.11, the class is not known.
    """
    if hook is None:
        return None
    if phase not in (Phase.CALLBACKS, Phase.LOGGING):
        return hook.co_name
    owner: str = getattr(hook, "co_qualname", "").rpartition(".")[0]
    return owner.rpartition(".")[2] or None


def entry_of(code: CodeType | None) -> str | None:
    """Return the name of a function with its class, such as `Corpus.__getitem__`.

    Before Python 3.11 the class is not known.
    """
    if code is None:
        return None
    name: str = getattr(code, "co_qualname", code.co_name)
    name = name.rpartition("<locals>.")[2]
    return None if "<" in name else name


def place_in_user_code(
    phase: Phase,
    user_frame: FrameType,
    frames_inside: list[FrameType],
    innermost: FrameType | None,
) -> ThreadPlace:
    """Return the place of a thread that is in a frame of the user's own code.

    `frames_inside` are the frames that this frame has called, the innermost first.
    """
    code = user_frame.f_code
    if frames_inside:
        callee: str | None = qualified_name(frames_inside[-1])
    else:
        callee = called_library(user_frame)
    kind = kind_of_call(frames_inside) if frames_inside or callee is None else "python"
    files = [frame.f_code.co_filename for frame in frames_inside]
    to_workers = [
        frame for frame in frames_inside if is_in_multiprocessing(frame.f_code.co_filename)
    ]
    if to_workers and not any(file.endswith(LOADER_FILE) for file in files):
        callee, kind = qualified_name(to_workers[-1]), "workers"
    is_innermost = next(frames_outwards(innermost)) is user_frame
    return ThreadPlace(
        phase=phase,
        file=code.co_filename,
        line=line_of(user_frame),
        function=code.co_name,
        callee=callee,
        kind=kind,
        operation=operation_of(user_frame),
        instruction=(code, user_frame.f_lasti) if is_innermost else None,
    )


def line_counts(
    samples: Counter[ThreadPlace],
    doubts: Counter[ThreadPlace],
    steps: Mapping[ThreadPlace, Sequence[int]] | None = None,
) -> tuple[LineCount, ...]:
    """Return the lines of the user's own code that have most samples.

    `steps` holds the step of each sample where that is known.
    """
    counts = [
        LineCount(
            phase=place.phase.value,
            file=shown_path(place.file),
            line=place.line,
            function=place.function,
            source=_source(place),
            callee=place.callee,
            kind=place.kind,
            count=count,
            operation=place.operation,
            doubt=doubts[place],
            part=place.part,
            entry=place.entry,
            steps=tuple(steps.get(place, ())) if steps else (),
        )
        for place, count in samples.most_common()
        if place.file
    ]
    return tuple(counts[:MAX_LINES])


def place_in_package(phase: Phase, frames_inside: list[FrameType], outer: FrameType) -> ThreadPlace:
    """Return the place of a thread that is not in the user's own code.

    That is the outermost function of another package, shown at the user's line nearest to it
    outside of `outer`. Without such a package, no file is known.
    """
    packages = [package_in(frame) for frame in frames_inside]
    from_outermost = reversed(range(len(frames_inside)))
    index = next((index for index in from_outermost if packages[index] not in _TOOLS), None)
    if index is None:
        callee = qualified_name(frames_inside[-1]) if frames_inside else None
        return ThreadPlace(phase, "", 0, "", callee, kind_of_call(frames_inside))
    package_frame = frames_inside[index]
    user_frames = (frame for frame in frames_outwards(outer) if package_in(frame) == USER)
    shown_frame = next(user_frames, package_frame)
    name = qualified_name(package_frame)
    kind = kind_of_call(frames_inside[: index + 1])
    file = shown_frame.f_code.co_filename
    return ThreadPlace(phase, file, line_of(shown_frame), name, name, kind)


def attribute_sample(
    place: ThreadPlace, timing: SampleTiming, number: int
) -> tuple[ThreadPlace, bool]:
    """Return the place that a sample counts for, and whether it may belong to another line.

    Directly after a switch point of Python (`lines_since_switch_point`), such as a quick call or a
    turn of a loop, a sample may belong to any line since the switch point before. It then counts
    for one of these lines, chosen by the sample's number.
    """
    instruction, place = place.instruction, place._replace(instruction=None)
    if instruction is None:
        return place, timing.waited_for_core
    lines, is_call = lines_since_switch_point(*instruction)
    is_in_call = is_call and (timing.late_ns >= LONG_NS or not is_quick(*instruction))
    if is_in_call or set(lines) <= {place.line}:
        return place, timing.waited_for_core
    line = lines[number % len(lines)]
    if line != place.line:
        kind = None if place.kind == "python" else place.kind
        place = place._replace(line=line, callee=None, kind=kind, operation=None)
    return place, True


def line_of(frame: FrameType) -> int:
    """Return the line of a frame, which for a jump by the compiler is the last line before it."""
    number: int | None = frame.f_lineno
    if number is not None:
        return number
    code = frame.f_code
    before = [line for start, _, line in code.co_lines() if line and start <= frame.f_lasti]
    return before[-1] if before else code.co_firstlineno


def _source(place: ThreadPlace) -> str:
    """Return the text of a line, with the function of another package if that was running."""
    source = linecache.getline(place.file, place.line).strip()
    return f"{source}  # in {place.function}".strip() if "." in place.function else source


def _phase(frame: FrameType, package: str) -> Phase | None:
    code = frame.f_code
    if package == USER or package in LIGHTNING_PACKAGES:
        phase = PHASE_BY_HOOK.get(code.co_name)
        if phase is not None:
            return phase
    if package not in LIGHTNING_PACKAGES:
        return None
    by_function = PHASE_BY_LIGHTNING_FUNCTION.get(code.co_name)
    return by_function or PHASE_BY_LIGHTNING_FILE.get(os.path.basename(code.co_filename))


def _runs(frame: FrameType, file: str, *functions: str) -> bool:
    """Return whether a frame runs one of these functions of a file, or any if none is given."""
    code = frame.f_code
    is_function = not functions or code.co_name in functions
    return is_function and os.path.basename(code.co_filename) == file


def _loop_of(frame: FrameType, package: str) -> str | None:
    """Return the function of `LOOPS` that a frame runs, or None."""
    code = frame.f_code
    if package not in LIGHTNING_PACKAGES:
        return None
    functions = LOOPS.get(os.path.basename(code.co_filename), ())
    return code.co_name if code.co_name in functions else None


def kind_of_call(frames_inside: list[FrameType]) -> str | None:
    """Return what a user's line has called (`LineCount.kind`), given the frames inside it.

    The innermost frame comes first.
    """
    if not frames_inside:
        return None
    if any(frame.f_code.co_name == FORMATS_STACK for frame in frames_inside):
        return "traceback"
    packages = [package_in(frame) for frame in frames_inside]
    innermost, outermost = frames_inside[0], frames_inside[-1]
    calls_module = any(frame.f_code.co_name == MODULE_CALL for frame in frames_inside)
    innermost_file = os.path.basename(innermost.f_code.co_filename)
    if packages[0] == packages[-1] == "python" and innermost_file in _WAITING_FILES:
        return "wait"
    if packages[-1] in LIGHTNING_PACKAGES:
        return "log" if outermost.f_code.co_name in LOG_METHODS else "lightning"
    if "torchmetrics" in packages:
        return "metric"
    if packages[-1] != "torch":
        # A step that calls the step of its library (`super().training_step`) is the model's.
        if outermost.f_code.co_name in PHASE_BY_HOOK:
            return "model"
        # What a library computes with torch is the model's too.
        if not calls_module and packages[0] != "torch" and "torch" not in innermost.f_globals:
            return "python"
    files = [os.path.basename(frame.f_code.co_filename) for frame in frames_inside]
    if any(file in FILE_ACCESS_FILES for file in files):
        return "python"
    return "model" if calls_module else "torch"


def qualified_name(frame: FrameType) -> str:
    """Return the name of a function with its package, such as `json.load`."""
    code = frame.f_code
    package = str(frame.f_globals.get("__name__", "")).split(".")[0]
    return f"{package}.{code.co_name}" if package else code.co_name


def frames_outwards(innermost: FrameType | None) -> Iterator[FrameType]:
    """Yield the frames of a thread, the innermost first, without a function that has just begun."""
    frame = innermost
    if frame is not None and has_just_begun(frame.f_code, frame.f_lasti):
        frame = frame.f_back
    while frame is not None:
        yield frame
        frame = frame.f_back
