"""Reads the SQLite files of rocmProfileData (`.rpd`), and the JSON that `rpd2tracing` makes.

In the database `rocpd_api` holds calls on the host, `rocpd_op` work on the device,
`rocpd_api_ops` which call queued what; times are ns. A marker is a call named `UserMarker` whose
text stands in its arguments. In the JSON, a bare list whose numbers are strings, a process named
`GPU2` is a device, its threads are queues, times are us, and flow arrows lead from a moment
inside a call to the start of what it queued. Both follow published files and schemas; the tests'
files are made up.
"""

import re
from typing import Any

import msgspec

from lightning_gpuprof.traces.arrows import Arrows
from lightning_gpuprof.traces.builder import TimelineBuilder, copy_name
from lightning_gpuprof.traces.files import decode_json, integer, read_file, scaled
from lightning_gpuprof.traces.options import ReadOptions
from lightning_gpuprof.traces.rocprof_v1 import DIRECTIONS
from lightning_gpuprof.traces.sniff import Head
from lightning_gpuprof.traces.sqlite import MAGIC, Database, has_tables
from lightning_gpuprof.traces.timeline import Timeline

_MARKERS = ("UserMarker", "roctx", "Marker")
_CALLS = ("hip", "__hip", "hsa_", "cuda", "nccl")
_GPU = re.compile(r"GPU(\d+)$")


class _Event(msgspec.Struct):
    ph: str = ""
    name: str = ""
    pid: int | str = ""
    tid: int | str = ""
    ts: int | float | str = ""
    dur: int | float | str = ""
    id: int | str = ""
    args: dict[str, Any] = {}


def matches(head: Head) -> bool:
    """Tell the database by its table of operations, the JSON by its first lines."""
    if head.data.startswith(MAGIC):
        return has_tables(head.path, head.data, "rocpd_op")
    start = head.data.lstrip()
    return start.startswith(b"[") and b'"args":{"desc":' in start and b'"name":"GPU' in start


def read(path: str, options: ReadOptions) -> Timeline:
    """Read device operations and host calls."""
    builder = TimelineBuilder("rpd")
    with open(path, "rb") as file:
        is_database = file.read(len(MAGIC)) == MAGIC
    if is_database:
        _read_database(path, builder)
    else:
        data = read_file(path, builder.warnings)
        _read_json(decode_json(data, list[_Event], path, builder.warnings), builder)
    return builder.build()


def _read_database(path: str, builder: TimelineBuilder) -> None:
    with Database(path, builder.warnings) as database:
        strings = dict(database.rows("rocpd_string", "id", "string"))
        call_of = dict(database.rows("rocpd_api_ops", "op_id", "api_id"))
        sizes = dict(database.rows("rocpd_copyapi", "api_ptr_id", "size"))
        sizes_by_op = dict(database.rows("rocpd_copyop", "op_ptr_id", "size"))
        for op, start, end, gpu, queue, text, kind in database.rows(
            "rocpd_op", "id", "start", "end", "gpuId", "queueId", "description_id", "opType_id"
        ):
            call = call_of.get(op)
            name, category = _work(strings.get(text, ""), strings.get(kind, ""))
            size = sizes_by_op.get(op, sizes.get(call)) if category == "gpu_memcpy" else None
            index = builder.name(name)
            builder.device(start, end, index, category, gpu, queue, call, size)
        for call, start, end, pid, tid, text, arguments in database.rows(
            "rocpd_api", "id", "start", "end", "pid", "tid", "apiName_id", "args_id"
        ):
            name = strings.get(text, "unnamed call")
            category = "cuda_runtime"
            if name.startswith(_MARKERS):
                name, category = strings.get(arguments) or name, "user_annotation"
            thread = builder.thread(pid or 0, tid or 0)
            builder.host(start, end, builder.name(name), category, thread, call)


def _read_json(events: list[_Event], builder: TimelineBuilder) -> None:
    named = [event for event in events if event.ph == "M" and event.name == "process_name"]
    devices = {
        event.pid: int(found[1])
        for event in named
        if (found := _GPU.match(str(event.args.get("name", ""))))
    }
    spans = [event for event in events if event.ph == "X"]
    calls = [e for e in spans if e.pid not in devices and e.name.startswith(_CALLS)]
    arrows = Arrows(events, calls)
    for event in spans:
        begin, lasted = scaled(str(event.ts), "us"), scaled(str(event.dur), "us")
        end = None if begin is None or lasted is None else begin + lasted
        if event.pid in devices:
            name, category = _work(event.name, str(event.args.get("desc", "")))
            where = (devices[event.pid], integer(str(event.tid)))
            call = arrows.to_work(event)
            builder.device(begin, end, builder.name(name), category, *where, call)
        else:
            category = "cuda_runtime" if event.name.startswith(_CALLS) else "user_annotation"
            thread = builder.thread(event.pid, event.tid)
            call = arrows.from_call(event)
            builder.host(begin, end, builder.name(event.name), category, thread, call)


def _work(description: str, kind: str) -> tuple[str, str]:
    """Return an operation's name and category; only kernels carry a description of their own."""
    if kind in DIRECTIONS:
        return copy_name(DIRECTIONS[kind]), "gpu_memcpy"
    if kind.startswith("Fill"):
        return kind, "gpu_memset"
    return description or kind or "unnamed kernel", "kernel"
