"""The files by which a running training is asked for a capture, and by which it answers.

All of them are in the folder of the run's records. The command writes a request, which rank 0
finds. If other ranks are asked too, rank 0 writes the request again as a plan that names the first
step, so that all of them record the same steps. Every rank that was asked answers with a file of
its own. Each file is replaced as a whole, and the next capture replaces the files of the last.
"""

import os
import re
from enum import Enum
from typing import TypeVar

import msgspec

from lightning_gpuprof.errors import UnreadableError
from lightning_gpuprof.records.decode import decoded
from lightning_gpuprof.records.files import open_file, plugin_dir, written_whole

REQUEST_NAME, PLAN_NAME = "capture-request.json", "capture-plan.json"
MOST_STEPS, MOST_LINES_S = 1_000, 600.0
"""Limits of a request: a trace of more steps is too large for any viewer."""
_MOST_BYTES = 1 << 16
_ID = re.compile(r"[0-9a-f]{8,32}")
_F = TypeVar("_F", bound=msgspec.Struct)


class CaptureRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a running training is asked to record.

    Args:
        id: Names the request; hexadecimal digits.
        started_unix_ns: When the session of rank 0 began that is asked. Any other session ignores
            the request.
        steps: How many steps torch.profiler records.
        ranks: The ranks that record.
        stacks: Whether the trace holds Python stacks.
        lines_s: For how many seconds the lines of the program are sampled.
        first_step: The first recorded step, in a plan of rank 0; None in a request.
    """

    id: str
    started_unix_ns: int
    steps: int = 5
    ranks: tuple[int, ...] = (0,)
    stacks: bool = False
    lines_s: float = 20.0
    first_step: int | None = None

    def problem(self) -> str | None:
        """Return what is wrong with the values, or None. A file may hold anything."""
        if not _ID.fullmatch(self.id):
            return f"its id {self.id[:40]!r} is not of hexadecimal digits"
        if not 1 <= self.steps <= MOST_STEPS:
            return f"it asks for {self.steps:,} steps, and 1 to {MOST_STEPS:,} can be recorded"
        if not 0 <= self.lines_s <= MOST_LINES_S:
            return f"it asks for {self.lines_s:g} s of lines, and at most {MOST_LINES_S:g} s work"
        return None


class CaptureState(str, Enum):
    """How far a rank is with a capture."""

    WAITING = "waiting"
    """The window has not begun yet."""
    SAMPLING = "sampling"
    """The trace is written or was left out, and lines are being sampled."""
    DONE = "done"
    REFUSED = "refused"
    """Nothing is recorded; `message` says why."""


class CaptureAnswer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a rank did about a request.

    Args:
        id: That of the request.
        rank: The rank that answers.
        state: How far it is.
        step: The step at whose end the rank wrote this.
        first_step: The first step of the window.
        last_step: The last step of the window.
        trace_file: The trace beside the answer; empty while there is none.
        samples: How many samples of the training thread were taken.
        worker_samples: How many samples of the loader's workers were taken.
        message: Why there is no trace, or what else the user should know.
    """

    id: str
    rank: int
    state: CaptureState
    step: int
    first_step: int | None = None
    last_step: int | None = None
    trace_file: str = ""
    samples: int = 0
    worker_samples: int = 0
    message: str = ""


def request_path(run: str) -> str:
    """Return the path of a run's request."""
    return os.path.join(plugin_dir(run), REQUEST_NAME)


def plan_path(run: str) -> str:
    """Return the path of rank 0's plan for several ranks."""
    return os.path.join(plugin_dir(run), PLAN_NAME)


def answer_path(run: str, rank: int) -> str:
    """Return the path of a rank's answer.

    >>> os.path.basename(answer_path("run", 8))
    'rank8-capture-answer.json'
    """
    return os.path.join(plugin_dir(run), f"rank{rank}-capture-answer.json")


def write_file(path: str, content: msgspec.Struct) -> None:
    """Write a request, plan or answer in the place of the last one.

    Raises:
        OSError: The folder cannot be written.
    """
    with written_whole(path) as part, open(part, "wb") as file:
        file.write(msgspec.json.encode(content))


def read_file(path: str, kind: type[_F]) -> _F:
    """Read a request, plan or answer.

    Raises:
        OSError: The file does not exist, may not be read, or is no regular file.
        UnreadableError: It holds something else.
    """
    with open_file(path, _MOST_BYTES) as file:
        text = file.read()
    content = decoded(msgspec.json.Decoder(kind), text)
    problem = content.problem() if isinstance(content, CaptureRequest) else None
    if problem is not None:
        raise UnreadableError(problem)
    return content
