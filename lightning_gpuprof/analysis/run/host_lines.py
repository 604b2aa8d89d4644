"""Which lines of the program the training thread was seen at, and what each takes of a step."""

import re
from collections.abc import Iterable, Sequence
from math import sqrt

from msgspec import Struct

from lightning_gpuprof.records.notes import ThreadUse, last_noted
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.records.schema import Note

NOTE = "host_lines"
"""Note of this name: the places that samples of the training thread's stack were at."""
Z = 2.0
"""Standard errors of a share's interval: it holds the true share 19 times in 20."""
_TAKES_LOCK = re.compile(r"with [\w.\[\]]+( as \w+)?:|.*\.acquire\(")
"""A line whose only call is a lock's: in `with self.lock:` nothing else can take time."""


class LineCount(Struct, frozen=True):
    """How many samples found the training thread at one line.

    Args:
        phase: Phase of the step.
        file: File of the user's innermost frame.
        line: Its line.
        function: Its function.
        source: The line's text; empty where it could not be read.
        callee: What the line was in, such as `json.load` or `numpy.normal`; None where it ran
            itself, or an operator of torch's.
        kind: Whose code the callee is: model, torch, log, metric, python; `hook` in a hook on a
            module, whatever it calls; `wait` where it waits for another thread; `traceback`
            where the stack was being written down, as anomaly detection does; None as above.
        count: Samples.
    """

    phase: str
    file: str
    line: int
    function: str
    source: str
    callee: str | None
    kind: str | None
    count: int

    @property
    def named(self) -> str:
        """Its function's name; its place where that has none of its own.

        >>> LineCount("forward", "t.py", 7, "<listcomp>", "", None, None, 9).named
        't.py:7'
        """
        return f"{self.file}:{self.line}" if self.function.startswith("<") else self.function

    @property
    def waits(self) -> bool:
        """Whether the line waits for another thread.

        >>> LineCount("forward", "t.py", 1, "f", "with self.lock:", None, None, 9).waits
        True
        """
        if self.kind == "wait":
            return True
        return self.kind is None and _TAKES_LOCK.match(self.source) is not None


class HostLines(Struct, frozen=True):
    """All samples in training steps. `whole` counts those outside the user's code too.

    `threads` is None where the system keeps no account of threads' times.
    """

    whole: int
    lines: tuple[LineCount, ...]
    by_phase: dict[str, int]
    threads: ThreadUse | None = None

    def of(self, phase: Phase, kinds: Sequence[str | None] | None = None) -> list[LineCount]:
        """Return the lines of a phase, the most often seen first."""
        found = [
            one
            for one in self.lines
            if one.phase == phase.value and (kinds is None or one.kind in kinds)
        ]
        return sorted(found, key=lambda one: -one.count)

    def interval(self, count: int, phase: Phase | None = None) -> tuple[float, float]:
        """Return between which shares of a phase's time, or a step's, the true one lies.

        >>> low, high = HostLines(400, (), {"forward": 100}).interval(50, Phase.FORWARD)
        >>> round(low, 2), round(high, 2)
        (0.4, 0.6)
        """
        whole = self.whole if phase is None else self.by_phase[phase.value]
        share = count / whole
        error = Z * sqrt(share * (1 - share) / whole)
        return max(0.0, share - error), min(1.0, share + error)


def host_lines(notes: Iterable[Note]) -> HostLines | None:
    """Return the last samples noted; None where none were taken."""
    lines = last_noted(notes, NOTE, HostLines)
    return lines if lines is not None and lines.whole else None
