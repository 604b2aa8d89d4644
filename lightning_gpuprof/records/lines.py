"""Stack samples of the training thread and of loader workers, by line of the program."""

import re
from collections.abc import Sequence
from enum import Enum
from math import sqrt

from msgspec import Struct

from lightning_gpuprof.paths import short_path
from lightning_gpuprof.records.facts import FactBase
from lightning_gpuprof.records.phases import Phase

Z = 2.0
"""An interval extends so many standard errors on either side: 19 in 20 hold the true share."""
COLLECTIVE = "collective"
"""The kind of a line that waits in a collective operation for other ranks."""
_TAKES_LOCK = re.compile(r"with [\w.\[\]]+( as \w+)?:|.*\.acquire\(")
"""A line that only takes a lock, such as `with self.lock:`: nothing else in it can take time."""

_READS = re.compile(
    r"\.(item|tolist|cpu|numpy|nonzero|unique|masked_select|synchronize)\("
    r"|(?<![\w.])(float|int|bool|str|print)\(|\b(if|while|assert)\b|\bf['\"]"
)
"""A line that may need a tensor's value on the host."""


class CodePlace(Struct, frozen=True):
    """A line of the user's own code; `function` is empty if it is unknown."""

    file: str
    line: int
    function: str
    source: str


class CompileEvent(FactBase, tag="compile_event", frozen=True):
    """A line at which torch.compile broke its graph, or a function that it compiled again.

    `what` is "graph break" or "recompilation"; `reason` and `hint` are the texts that
    `torch._dynamo` gives.
    """

    what: str
    reason: str
    hint: str
    place: CodePlace


class GuardCause(str, Enum):
    """What differed from the calls that torch.compile had compiled a function for."""

    SIZE = "size"
    """The size of a tensor's dimension."""
    PARAMETER = "parameter"
    """The size of a module's parameter: another layer runs the same function."""
    SIZE_CONDITION = "size_condition"
    """A condition on sizes: the function was compiled for any size that meets it."""
    RANK = "rank"
    """The number of a tensor's dimensions."""
    STRIDES = "strides"
    """The strides of a tensor."""
    DTYPE = "dtype"
    """The type of a tensor's values."""
    DEVICE = "device"
    """The device of a tensor."""
    GRADIENT = "gradient"
    """Whether a tensor requires a gradient."""
    ATTRIBUTE = "attribute"
    """A number that an object holds, such as a counter of a module."""
    NUMBER = "number"
    """A number in a local or global variable, an argument or a container."""
    FLAG = "flag"
    """A Python value that is no number: a boolean, a string, None."""
    CONTAINER = "container"
    """How many items a list, tuple or dict holds, or its keys."""
    OBJECT = "object"
    """Which object it is, or its class."""
    MODE = "mode"
    """torch's global state, such as the gradient mode, autocast or the number of threads."""
    FREED = "freed"
    """An object that the compiled code belonged to was freed."""
    BACKEND = "backend"
    """The backend that torch.compile was called with."""
    OTHER = "other"
    """Anything else, or torch gives no reason."""


class Recompilation(FactBase, tag="recompilation", frozen=True):
    """A function that torch.compile compiled again, or gave up on, with torch's reason.

    Args:
        step: The step that called the function.
        function: The function that was compiled.
        cause: What differed from the calls that it had been compiled for.
        subject: The expression that differed, such as `self.calls`; empty if torch names none.
        reason: The guard that failed, in torch's words.
        value: The number that a guard expected, as Python writes it; empty for other guards.
        place: The line for which torch made the guard, if that is the user's own.
        took_ns: What compiling took, backward pass included; None if torch does not record it.
        limit: The setting of torch whose limit was reached, such as `recompile_limit`. torch then
            compiles nothing, and from now on runs the function uncompiled where no version fits.
    """

    step: int
    function: CodePlace
    cause: GuardCause
    subject: str = ""
    reason: str = ""
    value: str = ""
    place: CodePlace | None = None
    took_ns: int | None = None
    limit: str = ""


class LineCount(Struct, frozen=True):
    """Samples in which the innermost frame of the user's code was at the same line.

    Args:
        source: The line's text; empty if it could not be read.
        callee: The function that the line was calling, such as `json.load` or `numpy.normal`; None
            if it was calling none, or an operator of torch.
        kind: What the callee belongs to: `model`, `torch`, `log`, `metric` or `python`; `hook` in
            a hook on a module, whatever that calls; `wait` if it waits for another thread,
            `workers` if for processes of `multiprocessing`; `traceback` if a stack was being
            recorded, as anomaly detection does; `collective` if a collective operation was waiting
            for other ranks; None if there is no callee.
        operation: The call or operator of the line that was running, such as `tensor`.
        doubt: How many of the samples may belong to other lines of the function.
        part: Outside of steps, the hook of the module, or the class of the callback or logger, that
            was running, or else a function of another package; None if unknown, and in steps.
        entry: Where a batch is made, the program's function that the loader called, with its class:
            `Corpus.__getitem__`, or a collate function. None if unknown.
        steps: The step of every sample of the training thread; empty in earlier records.
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
    part: str | None = None
    entry: str | None = None
    steps: tuple[int, ...] = ()

    @property
    def in_package(self) -> bool:
        """Whether a function of another package was sampled, as no frame was the program's own."""
        return "." in self.function

    @property
    def named(self) -> str:
        """The function's name, or the line's place if the function has no name of its own.

        >>> LineCount("forward", "t.py", 7, "<listcomp>", "", None, None, 9).named
        't.py:7'
        """
        at = f"{short_path(self.file)}:{self.line}"
        return at if self.function.startswith("<") else self.function

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
        """Whether the line may read a tensor's value on the host, which waits for the device.

        >>> LineCount("forward", "t.py", 1, "f", "total += loss.item()", None, None, 9).reads
        True
        """
        return _READS.search(self.source) is not None


class Reads(Struct, frozen=True):
    """What a thread has read from files and pipes, caches included, and in how many calls."""

    wall_ns: int
    size_bytes: int
    calls: int

    def since(self, before: "Reads") -> "Reads":
        """Return what was read since an earlier reading."""
        size_bytes = self.size_bytes - before.size_bytes
        return Reads(self.wall_ns - before.wall_ns, size_bytes, self.calls - before.calls)


class CpuTime(Struct, frozen=True):
    """CPU time of a process in all threads, and how long its main thread waited for a core."""

    wall_ns: int
    used_ns: int
    queued_ns: int

    def since(self, before: "CpuTime") -> "CpuTime":
        """Return what was used since an earlier reading."""
        used_ns, queued_ns = self.used_ns - before.used_ns, self.queued_ns - before.queued_ns
        return CpuTime(self.wall_ns - before.wall_ns, used_ns, queued_ns)


class ArgumentCount(Struct, frozen=True):
    """Samples of a phase in work that an argument asked for, such as `pin_memory`."""

    phase: str
    argument: str
    count: int


class HostLines(FactBase, tag="host_lines", frozen=True):
    """All samples of the training thread during training steps.

    Args:
        whole: How many samples there are, those outside the user's code included.
        by_phase: How many there are by phase.
        blocked: Without workers, how many of the samples in `data_wait` waited for storage.
        filesystem: The type of the file system that they waited for, such as nfs4.
        read: What the thread read in all.
        arguments: How many samples there are in work that an argument asked for.
        first_step: The step of the first sample; None in records of earlier versions.
        last_step: The step of the last sample.
        steps: The step of every sample; empty in records of earlier versions.
    """

    whole: int
    lines: tuple[LineCount, ...]
    by_phase: dict[str, int]
    blocked: int | None = None
    filesystem: str | None = None
    read: Reads | None = None
    arguments: tuple[ArgumentCount, ...] = ()
    first_step: int | None = None
    last_step: int | None = None
    steps: tuple[int, ...] = ()

    def of(self, phase: Phase, kinds: Sequence[str | None] | None = None) -> list[LineCount]:
        """Return the lines of a phase, those with the most samples first."""
        lines = [
            line
            for line in self.lines
            if line.phase == phase.value and (kinds is None or line.kind in kinds)
        ]
        return sorted(lines, key=lambda line: -line.count)

    def interval(
        self, lines: Sequence[LineCount], phase: Phase | None = None
    ) -> tuple[float, float]:
        """Return the interval of the share that lines have of a phase's time, or of a step's.

        It allows for the chance error of so many samples. Samples in doubt widen it if other
        lines of the same functions have samples in doubt too.

        >>> line = LineCount("forward", "t.py", 7, "f", "", None, None, 50)
        >>> low, high = HostLines(400, (line,), {"forward": 100}).interval([line], Phase.FORWARD)
        >>> round(low, 2), round(high, 2)
        (0.4, 0.6)
        """
        whole = self.whole if phase is None else self.by_phase[phase.value]
        chosen, functions = set(lines), {(line.phase, line.file, line.function) for line in lines}
        others = sum(
            line.doubt
            for line in self.lines
            if line not in chosen and (line.phase, line.file, line.function) in functions
        )
        count = sum(line.count for line in lines)
        sure = count - sum(line.doubt for line in lines) if others else count
        low, high = sure / whole, min(1.0, max(1, count + others) / whole)
        return (
            max(0.0, low - Z * sqrt(low * (1 - low) / whole)),
            min(1.0, high + Z * sqrt(high * (1 - high) / whole)),
        )


class OutsideLines(FactBase, tag="outside_lines", frozen=True):
    """Samples of the training thread between epochs.

    Args:
        whole: How many samples there are, those outside the user's code included.
        lines: Those in the user's code, by line.
        by_phase: How many there are by phase.
    """

    whole: int
    lines: tuple[LineCount, ...]
    by_phase: dict[str, int]

    @property
    def as_lines(self) -> HostLines:
        """The samples as if they had been taken in steps."""
        return HostLines(self.whole, self.lines, self.by_phase)

    def of(self, phase: Phase, part: str | None) -> list[LineCount]:
        """Return the lines of a hook or callback in a phase, the longest first.

        Lines of which the callback is not known are among them.
        """
        lines = [
            line for line in self.lines if line.phase == phase.value and line.part in (None, part)
        ]
        return sorted(lines, key=lambda line: -line.count)


class WorkerLines(FactBase, tag="worker_lines", frozen=True):
    """All samples of the sampled worker processes, and the user's lines that made batches.

    Args:
        processes: How many worker processes were sampled.
        work: Samples in which they made batches; `lines` holds these.
        waiting: Samples in which they waited for work.
        handing: Samples in which they handed a batch over, or did anything else.
        start_ns: From the request for the loader's iterator until its first worker ran.
        init_ns: How much of that the user's `worker_init_fn` took; None if there is none.
        blocked: Samples of `work` in which they waited for storage; None if unknown.
        filesystem: The type of the file system that they waited for, such as nfs4; None if
            unknown.
        read: What all sampled workers read together.
        cpu: What they computed together while they were sampled; None if unknown.
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
    cpu: CpuTime | None = None

    @property
    def whole(self) -> int:
        """All samples."""
        return self.work + self.waiting + self.handing

    @property
    def waiting_frac(self) -> float:
        """Share of the samples in which the workers waited for work."""
        return self.waiting / max(1, self.whole)

    @property
    def as_lines(self) -> HostLines:
        """The workers' samples as if the training thread had made the batches in `data_wait`."""
        return HostLines(self.work, self.lines, {Phase.DATA_WAIT.value: self.work})


class CapturedLines(FactBase, tag="captured_lines", frozen=True):
    """Samples that were taken for a capture, apart from those of the run's first seconds.

    Args:
        capture: The number of the `Capture`.
        host: Those of the training thread; None if there are none.
        workers: Those of the loader's workers; None if there are none.
    """

    capture: int
    host: HostLines | None = None
    workers: WorkerLines | None = None


class ModuleCalls(FactBase, tag="module_calls", frozen=True):
    """How often named modules are called per step, and lines whose calls could become one call.

    Such a line calls a module repeatedly in a step, and no call needs the result of another.
    """

    per_step: dict[str, float]
    loops: dict[str, CodePlace]
