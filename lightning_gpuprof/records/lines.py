"""Samples of the training thread and of its loader's workers, by line of the program."""

import re
from collections.abc import Sequence
from math import sqrt

from msgspec import Struct

from lightning_gpuprof.records.facts import FactBase
from lightning_gpuprof.records.phases import Phase

Z = 2.0
"""Standard errors of a share's interval: it holds the true share 19 times in 20."""
_TAKES_LOCK = re.compile(r"with [\w.\[\]]+( as \w+)?:|.*\.acquire\(")
"""A line whose only call is a lock's: in `with self.lock:` nothing else can take time."""

_READS = re.compile(
    r"\.(item|tolist|cpu|numpy|nonzero|unique|masked_select|synchronize)\("
    r"|(?<![\w.])(float|int|bool|str|print)\(|\b(if|while|assert)\b|\bf['\"]"
)
"""A line that may need a tensor's value on the host."""


class CodePlace(Struct, frozen=True):
    """A line of the user's own code; `function` is empty where it is not known."""

    file: str
    line: int
    function: str
    source: str


class CompileEvent(FactBase, tag="compile_event", frozen=True):
    """A line at which torch.compile broke its graph, or a function that it compiled again.

    `what` is "graph break" or "recompilation"; `reason` and `hint` are dynamo's words.
    """

    what: str
    reason: str
    hint: str
    place: CodePlace


class LineCount(Struct, frozen=True):
    """Samples of the training thread at one line, of the user's innermost frame.

    Args:
        source: The line's text; empty where it could not be read.
        callee: What the line was in, such as `json.load` or `numpy.normal`; None where it ran
            itself, or an operator of torch's.
        kind: Whose code the callee is: model, torch, log, metric, python; `hook` in a hook on a
            module, whatever it calls; `wait` where it waits for another thread, `workers` for
            processes of `multiprocessing`; `traceback` where the stack was being written down, as
            anomaly detection does; None as above.
        operation: The call or operator in the line that was seen running, such as `tensor`.
        doubt: Of the samples, those that may be of other lines of the function.
    """

    phase: str
    file: str
    line: int
    function: str
    source: str
    callee: str | None
    kind: str | None
    count: int
    operation: str | None = None
    doubt: int = 0

    @property
    def in_package(self) -> bool:
        """Whether another package's function ran, which is named instead of one of the program."""
        return "." in self.function

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

    @property
    def reads(self) -> bool:
        """Whether the line may read a value off the device.

        >>> LineCount("forward", "t.py", 1, "f", "total += loss.item()", None, None, 9).reads
        True
        """
        return _READS.search(self.source) is not None


class Reads(Struct, frozen=True):
    """How much a thread has read from files and pipes, of caches too, and in how many calls."""

    wall_ns: int
    size_bytes: int
    calls: int

    def since(self, before: "Reads") -> "Reads":
        """Return what was read since then."""
        size_bytes = self.size_bytes - before.size_bytes
        return Reads(self.wall_ns - before.wall_ns, size_bytes, self.calls - before.calls)


class HostLines(FactBase, tag="host_lines", frozen=True):
    """All samples in training steps. `whole` counts those outside the user's code too.

    In `blocked` of those that waited for data without workers the thread waited for storage; all
    that it read is in `read`.
    """

    whole: int
    lines: tuple[LineCount, ...]
    by_phase: dict[str, int]
    blocked: int | None = None
    filesystem: str | None = None
    read: Reads | None = None

    def of(self, phase: Phase, kinds: Sequence[str | None] | None = None) -> list[LineCount]:
        """Return the lines of a phase, the most often seen first."""
        found = [
            one
            for one in self.lines
            if one.phase == phase.value and (kinds is None or one.kind in kinds)
        ]
        return sorted(found, key=lambda one: -one.count)

    def interval(
        self, lines: Sequence[LineCount], phase: Phase | None = None
    ) -> tuple[float, float]:
        """Return an interval of the share of a phase's time, or a step's, that lines stand for.

        It holds what chance does to so many samples, and samples in doubt where lines that are not
        among these have some too.

        >>> line = LineCount("forward", "t.py", 7, "f", "", None, None, 50)
        >>> low, high = HostLines(400, (line,), {"forward": 100}).interval([line], Phase.FORWARD)
        >>> round(low, 2), round(high, 2)
        (0.4, 0.6)
        """
        whole = self.whole if phase is None else self.by_phase[phase.value]
        ours, near = set(lines), {(one.phase, one.file, one.function) for one in lines}
        others = sum(
            one.doubt
            for one in self.lines
            if one not in ours and (one.phase, one.file, one.function) in near
        )
        count = sum(one.count for one in lines)
        sure = count - sum(one.doubt for one in lines) if others else count
        low, high = sure / whole, min(1.0, max(1, count + others) / whole)
        return (
            max(0.0, low - Z * sqrt(low * (1 - low) / whole)),
            min(1.0, high + Z * sqrt(high * (1 - high) / whole)),
        )


class WorkerLines(FactBase, tag="worker_lines", frozen=True):
    """All samples of the sampled worker processes, and the user's lines that made batches.

    Args:
        handing: Samples in which they handed a batch over, or did anything else.
        start_ns: From when the loader was asked for an iterator until its first worker ran.
        init_ns: What the user's `worker_init_fn` took in it; None where there is none.
        blocked: Samples of `work` in which they waited for storage; None where nobody knows.
        filesystem: Where the files that they waited for are, such as nfs4; None where not seen.
        read: What they read, all together.
    """

    processes: int
    work: int
    waiting: int
    handing: int
    lines: tuple[LineCount, ...]
    start_ns: int | None = None
    init_ns: int | None = None
    blocked: int | None = None
    filesystem: str | None = None
    read: Reads | None = None

    @property
    def whole(self) -> int:
        """All samples."""
        return self.work + self.waiting + self.handing

    @property
    def waiting_frac(self) -> float:
        """Share of the samples in which they waited for work."""
        return self.waiting / max(1, self.whole)

    @property
    def as_lines(self) -> HostLines:
        """Their work as if the training thread had done it, waiting for data."""
        return HostLines(self.work, self.lines, {Phase.DATA_WAIT.value: self.work})


class ModuleCalls(FactBase, tag="module_calls", frozen=True):
    """How often named modules are called per step, and the lines whose calls could be one.

    Such a line calls the module again and again in a step, and no call needs what another returned.
    """

    per_step: dict[str, float]
    loops: dict[str, CodePlace]
