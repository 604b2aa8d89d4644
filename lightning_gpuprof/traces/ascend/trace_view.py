"""Reads Chrome traces of Ascend NPUs: torch_npu's `trace_view.json`, and `msprof_*.json`.

Events are told apart by the name of their process, not by a category: `Python` has operators and
steps, `CANN` the calls that launch work, `Ascend Hardware` the tasks of each stream, and
`Communication` (`HCCL` in older releases) the collectives. `connection_id` joins a task to its
call. Processes with figures that are derived from these (`Overlap Analysis`, frequencies) are left
out.
"""

import re
from collections.abc import Iterator

import msgspec

from lightning_gpuprof.traces.builder import TimelineBuilder, copy_name
from lightning_gpuprof.traces.columns import LIMIT_NS, to_id
from lightning_gpuprof.traces.files import read_blocks
from lightning_gpuprof.traces.kineto.event_stream import EventStream
from lightning_gpuprof.traces.kineto.events import NOTHING, Loose, exact_ns
from lightning_gpuprof.traces.sniff import Head, ReadOptions
from lightning_gpuprof.traces.timeline import DeviceInfo, Timeline

_MARK = re.compile(rb'"(?:Ascend Hardware|AscendCL|CANN)"')
_CHROME = re.compile(rb'"ph"\s*:')
_WAITS = re.compile(
    r"EVENT_|NOTIFY_|PLACE_HOLDER|WRITE_VALUE|FLIP|MODEL_|PROFILER|.*_WAIT|CMO|MAINTENANCE|SINK"
)
"""Tasks in which a stream waits, or marks a place, but computes and moves nothing."""
_COPIES = re.compile(r"MEMCPY|SDMA|PCIE_DMA", re.IGNORECASE)
_OF_PYTHON = {"python_function": "python_function", "user_annotation": "user_annotation"}
_QUEUE = ("enqueue", "dequeue")
"""Calls that pass an operator to the thread that launches it."""
_DIRECTION = re.compile(r"(host|device) to (host|device)", re.IGNORECASE)


class _Args(msgspec.Struct, gc=False):
    name: Loose = None
    connection: Loose = msgspec.field(default=None, name="connection_id")
    task: Loose = msgspec.field(default="", name="Task Type")
    operation: Loose = msgspec.field(default="", name="operation")
    size: Loose = msgspec.field(default=None, name="size(B)")


class _Event(msgspec.Struct, gc=False):
    ph: str = ""
    name: str = ""
    cat: str | None = None
    pid: int | str | None = None
    tid: int | str | None = None
    ts: msgspec.Raw = NOTHING
    dur: msgspec.Raw = NOTHING
    args: _Args | None = None


def matches(head: Head) -> bool:
    """Return whether a Chrome trace names a process of an Ascend NPU at its start."""
    return _MARK.search(head.data) is not None and _CHROME.search(head.data) is not None


def read(path: str, options: ReadOptions) -> Timeline:
    """Read operators, calls, tasks and collectives."""
    builder = TimelineBuilder("ascend", vendor="huawei")
    reader = _Reader(builder, options)
    for event in _events(path, builder.warnings, options):
        if event.ph == "M":
            reader.name(event)
        elif event.ph == "X":
            reader.events.append(event)
    reader.read()
    devices = sorted(set(reader.devices.values()))
    return builder.build(devices=[DeviceInfo(device, None, "huawei") for device in devices])


def _events(path: str, warnings: list[str], options: ReadOptions) -> Iterator[_Event]:
    many = msgspec.json.Decoder(list[_Event])

    def single(text: bytes) -> _Event | None:
        try:
            return msgspec.json.decode(text, type=_Event, strict=False)
        except (msgspec.MsgspecError, ValueError):
            return None

    blocks = read_blocks(path, warnings, options.progress)
    for events in EventStream(blocks, many.decode, single, warnings.append):
        yield from events


class _Reader:
    """Sorts events by their process once all processes are named."""

    def __init__(self, builder: TimelineBuilder, options: ReadOptions) -> None:
        self.events: list[_Event] = []
        self.devices: dict[object, int] = {}
        """The number of the device of each process of tasks."""
        self._builder, self._options = builder, options
        self._processes: dict[object, str] = {}
        self._threads: dict[tuple[object, object], str] = {}

    def name(self, event: _Event) -> None:
        """Keep the name of a process or thread."""
        text = str(event.args.name) if event.args is not None else ""
        if event.name == "process_name":
            self._processes[event.pid] = text
            if text == "Ascend Hardware":
                self.devices.setdefault(event.pid, len(self.devices))
        elif event.name == "thread_name":
            self._threads[event.pid, event.tid] = text

    def read(self) -> None:
        """Add all events to the timeline."""
        add = {
            "Python": self._operator,
            "CANN": self._call,
            "AscendCL": self._call,
            "Ascend Hardware": self._task,
            "Communication": self._collective,
            "HCCL": self._collective,
        }
        for event in self.events:
            read = add.get(self._processes.get(event.pid, ""))
            if read is not None:
                start = _ns(event.ts)
                read(event, start, start + _ns(event.dur), event.args or _NO_ARGS)

    def _operator(self, event: _Event, start: int, end: int, args: _Args) -> None:
        if event.cat in _QUEUE or (event.cat == "python_function" and not self._options.stacks):
            return
        category = _OF_PYTHON.get(event.cat or "", "cpu_op")
        if event.name.startswith("ProfilerStep"):
            category = "user_annotation"
        self._builder.host(start, end, event.name, category, self._thread(event))

    def _call(self, event: _Event, start: int, end: int, args: _Args) -> None:
        call = (event.name, "cuda_runtime", self._thread(event), _connection(args))
        self._builder.host(start, end, *call)

    def _thread(self, event: _Event) -> int:
        name = self._threads.get((event.pid, event.tid))
        return self._builder.thread(event.pid, event.tid, name)

    def _task(self, event: _Event, start: int, end: int, args: _Args) -> None:
        thread = self._threads.get((event.pid, event.tid), "Stream")
        task = str(args.task or event.name)
        if not thread.startswith("Stream") or _WAITS.match(task):
            return
        where = (self.devices[event.pid], to_id(event.tid), _connection(args))
        if not _COPIES.search(task):
            self._builder.device(start, end, event.name, "kernel", *where)
            return
        way = _DIRECTION.search(str(args.operation))
        direction = f"{way[1][0].upper()}to{way[2][0].upper()}" if way else "DtoD"
        size = None if args.size is None else to_id(args.size)
        self._builder.device(start, end, copy_name(direction), "gpu_memcpy", *where, size)

    def _collective(self, event: _Event, start: int, end: int, args: _Args) -> None:
        """Add a collective; its parts on each link (`Plane 0`) are left out."""
        if not event.name.startswith("hcom_"):
            return
        stream = (1 << 20) + to_id(event.tid)  # beside the streams of tasks
        where = (min(self.devices.values(), default=0), stream, _connection(args))
        self._builder.device(start, end, event.name, "kernel", *where)


_NO_ARGS = _Args()


def _connection(args: _Args) -> int | None:
    return None if args.connection is None else to_id(args.connection)


def _ns(text: msgspec.Raw) -> int:
    ns = exact_ns(bytes(text))
    return max(-LIMIT_NS, min(ns, LIMIT_NS))
