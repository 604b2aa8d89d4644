"""Which tools for debugging were on while training ran, and whether threads were too many."""

from collections.abc import Iterable
from enum import Enum

from msgspec import Struct

from lightning_gpuprof.records.module_calls import CallPlace
from lightning_gpuprof.records.notes import last_noted
from lightning_gpuprof.records.schema import ANOMALY_NOTE, Note

DEBUGGING_NOTE = "debugging"
"""Note of this name: tools that were on in one of the first batches."""


class Tool(str, Enum):
    """What was on."""

    TRACEMALLOC = "tracemalloc"
    TRACE = "trace"
    PROFILE = "profile"
    GC = "gc"
    ALLOCATOR = "allocator"
    LAUNCH_BLOCKING = "launch_blocking"
    DISTRIBUTED = "distributed"


class Debugging(Struct, frozen=True):
    """A tool that was on.

    Args:
        tool: Which.
        by: What it was set by or to: the function that is told of calls, the variable of the
            environment, the frames that `tracemalloc` keeps.
        place: The line of the program that switched it on, where one looks like it.
    """

    tool: Tool
    by: str
    place: CallPlace | None = None


THREADS_NOTE = "thread_trial"
"""Note of this name: torch had more threads than the process has cores."""


class ThreadTrial(Struct, frozen=True):
    """The same work with the threads that were set, and with one for each core.

    Args:
        threads: Threads of torch.
        cores: Cores that the process may use.
        as_set_ns: The work's time with these threads.
        per_core_ns: Its time with one thread for each core.
        place: The line that sets their number, where one looks like it.
    """

    threads: int
    cores: int
    as_set_ns: int
    per_core_ns: int
    place: CallPlace | None = None


class AnomalyMode(Struct, frozen=True):
    """In which passes torch.autograd's anomaly detection was on.

    Args:
        forward: Nodes of the graph hold the stack that made them.
        backward: It was on while the backward pass ran.
        place: The line of the program that switched it on, where one looks like it.
    """

    forward: bool
    backward: bool
    place: CallPlace | None = None


def anomaly_mode(notes: Iterable[Note]) -> AnomalyMode | None:
    """Return what was noted last of anomaly detection; None where it was off by then.

    Older files only say that it was on.

    >>> anomaly_mode([Note(step=0, name=ANOMALY_NOTE, value=True)]).backward
    True
    """
    noted = [note for note in notes if note.name == ANOMALY_NOTE]
    if last_noted(noted, ANOMALY_NOTE, bool):
        return AnomalyMode(forward=True, backward=True)
    return last_noted(noted, ANOMALY_NOTE, AnomalyMode)


def thread_trial(notes: Iterable[Note]) -> ThreadTrial | None:
    """Return what was noted of too many threads; None where there were none."""
    return last_noted(notes, THREADS_NOTE, ThreadTrial)


def debugging(notes: Iterable[Note]) -> tuple[Debugging, ...]:
    """Return what was noted of tools for debugging; empty where none was on."""
    return last_noted(notes, DEBUGGING_NOTE, tuple[Debugging, ...]) or ()
