"""Names what a Chrome trace holds beside the events that are read, and the tool that wrote it.

Chrome's trace format says nothing about what its categories mean: each tool has its own. A file is
read a second time for their names, where the first pass met events with a duration that it could
not place.
"""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from lightning_gpuprof.traces.files import read_blocks
from lightning_gpuprof.traces.kineto.event_stream import EventStream
from lightning_gpuprof.traces.kineto.events import CATEGORY_NAMES, Loose
from lightning_gpuprof.traces.timeline import PassedOver
from lightning_gpuprof.units import duration

TOOLS = (
    ("VizTracer", r"viztracer_metadata|FEE"),
    ("torch_npu or msprof, of an Ascend NPU", r"Ascend Hardware|CANN|AscendCL|HCCL|async_npu"),
    ("torch.profiler on an Intel Gaudi (HPU)", r"hpu_op|habana.*|Synapse.*|HPU.*"),
    ("torch.profiler on an MTIA", r"mtia_.*"),
    ("torch.profiler on an accelerator of another maker", r"privateuse1_.*|glow_runtime"),
    ("ONNX Runtime", r"Session|onnxruntime.*"),
    ("torch.compile's log", r"dynamo_timed|chromium_event.*"),
    ("Proton, Triton's profiler", r"proton.*|triton.*|.*Core\d+ CTA\d+|Kernel Call Path"),
    ("Intel's unitrace", r"gpu_op"),
    ("a browser", r"(?:disabled-by-default-)?(?:devtools\.|blink|v8|toplevel|cc\b).*"),
    ("a browser", r"Browser|Renderer|CrBrowserMain|CrRendererMain"),
    ("a legacy torch profiler (torch.autograd.profiler)", r"(?:CPU|CUDA) functions"),
    ("clang's -ftime-trace", r"beginningOfTime"),
    ("Ray", r"task::?.*|ray::.*"),
)
"""Tools by what only their files hold: the name of a category, a process, or a value beside the
events. The first that fits a name counts."""
_KNOWN = re.compile(r"|".join(f"(?P<t{i}>{pattern})" for i, (_, pattern) in enumerate(TOOLS)))
MOST_KINDS = 8
_MOST_US = 1e15


class _Args(msgspec.Struct, gc=False):
    name: Loose = None


class _Event(msgspec.Struct, gc=False):
    ph: str = ""
    cat: str | None = None
    name: str = ""
    pid: int | str | None = None
    tid: int | str | None = None
    ts: float | int | str = 0
    dur: float | int | None = None
    args: _Args | None = None


@dataclass
class _Kind:
    """Events of one category, or of one process where events have none."""

    count: int = 0
    total_us: float = 0.0
    longest_us: float = -1.0
    example: str = ""

    def add(self, name: str, dur_us: float) -> None:
        self.count += 1
        self.total_us += dur_us
        if dur_us > self.longest_us:
            self.longest_us, self.example = dur_us, name


@dataclass
class Survey:
    """What a file holds beside the events that are read."""

    kinds: dict[tuple[str | None, int | str | None], _Kind] = field(
        default_factory=lambda: defaultdict(_Kind)
    )
    processes: dict[int | str | None, str] = field(default_factory=dict)
    """Names of processes by their id; an id that is text names itself."""
    open: dict[tuple[object, object], list[_Event]] = field(
        default_factory=lambda: defaultdict(list)
    )
    """Events of each thread that began and have not ended yet."""

    def add(self, events: Sequence[_Event]) -> None:
        """Count the events that are not read."""
        for event in events:
            if isinstance(event.pid, str):
                self.processes.setdefault(event.pid, event.pid)
            if event.ph == "M":
                if event.name == "process_name" and event.args is not None:
                    self.processes[event.pid] = str(event.args.name)
            elif event.cat in CATEGORY_NAMES:
                continue
            elif event.ph == "X":
                self._count(event, max(0, event.dur or 0))
            elif event.ph == "B":
                self.open[event.pid, event.tid].append(event)
            elif event.ph == "E" and (begun := self.open[event.pid, event.tid]):
                begin = begun.pop()
                if isinstance(begin.ts, (int, float)) and isinstance(event.ts, (int, float)):
                    self._count(begin, max(0, event.ts - begin.ts))

    def _count(self, event: _Event, dur_us: float) -> None:
        place = None if event.cat else event.pid
        self.kinds[event.cat or None, place].add(event.name, dur_us)

    def passed_over(self) -> tuple[PassedOver, ...]:
        """Return the kinds of events that are not read, those with the longest total first."""
        rows: dict[str, _Kind] = {}
        for (category, pid), kind in self.kinds.items():
            row = rows.setdefault(category or self._process(pid), _Kind())
            row.count += kind.count
            row.total_us += kind.total_us
            if kind.longest_us > row.longest_us:
                row.longest_us, row.example = kind.longest_us, kind.example
        ordered = sorted(rows.items(), key=lambda item: (-item[1].total_us, item[0]))
        return tuple(
            PassedOver(name, kind.count, _ns(kind.total_us), kind.example or None)
            for name, kind in ordered[:MOST_KINDS]
        )

    def _process(self, pid: int | str | None) -> str:
        return self.processes.get(pid) or f"process {pid}"

    def tool(self, header: Mapping[str, object]) -> str | None:
        """Return the tool that wrote the file; None if it is not known."""
        names = [*header, *(row.kind for row in self.passed_over()), *self.processes.values()]
        matches = (_KNOWN.fullmatch(name) for name in names)
        known = [int(match.lastgroup[1:]) for match in matches if match and match.lastgroup]
        return TOOLS[min(known)][0] if known else None


def survey(path: str) -> Survey:
    """Read a file for what the first pass left out."""
    result = Survey()
    many = msgspec.json.Decoder(list[_Event], strict=False)
    one = msgspec.json.Decoder(_Event, strict=False)

    def single(text: bytes) -> _Event | None:
        try:
            return one.decode(text)
        except (msgspec.MsgspecError, ValueError):
            return None

    lost: list[str] = []
    for events in EventStream(read_blocks(path, lost), many.decode, single, lost.append):
        result.add(events)
    return result


def _ns(us: float) -> int:
    return round(1000 * min(us, _MOST_US))


def sentence(rows: Sequence[PassedOver]) -> str:
    """Return how many events were passed over, and how much time they take together."""
    parts = [f"{_counted(row.count)} of `{row.kind}` ({duration(row.total_ns)})" for row in rows]
    return f"Left out, because their kinds are not known here: {', '.join(parts)}."


def _counted(count: int) -> str:
    return "1 event" if count == 1 else f"{count:,} events"
