"""Reads the SQLite files of rocmProfileData (`.rpd`), and the JSON that `rpd2tracing` makes.

In the database `rocpd_api` holds calls on the host, `rocpd_op` work on the device,
`rocpd_api_ops` joins them; times are ns. A marker is a call named `UserMarker` with its text in
its arguments; from schema 3 on, rows have a domain and a category. In the JSON a process named
`GPU2` is a device, its threads are queues, times are us, and flow arrows lead from a call to its
work.
"""

import re

from lightning_gpuprof.traces.amd.rocprof_v1 import DIRECTIONS
from lightning_gpuprof.traces.arrows import Arrows, Event, Trace
from lightning_gpuprof.traces.builder import TimelineBuilder, copy_name
from lightning_gpuprof.traces.files import decode_json, integer, read_file, scaled
from lightning_gpuprof.traces.options import ReadOptions
from lightning_gpuprof.traces.sniff import Head
from lightning_gpuprof.traces.sqlite import MAGIC, Database, has_tables
from lightning_gpuprof.traces.timeline import Timeline

_MARKERS = ("UserMarker", "roctx", "Marker")
_CALLS = ("hip", "__hip", "hsa_", "cuda", "nccl")
_OPERATORS = ("aten::", "autograd::", "torch::")
_CATEGORIES = {
    "function": "cpu_op",
    "backward_function": "cpu_op",
    "user_scope": "user_annotation",
}
"""Our category of torch's rows, by that of schema 3."""
_GPU = re.compile(r"GPU(\d+)$")
_FRAME = "UserMarker frame"
"""Begins what is said of a marker that the writer drew above the work within it."""
_API = ("id", "start", "end", "pid", "tid", "apiName_id", "args_id")
_FIRST = re.compile(rb'\s*(?:\{\s*"traceEvents":\s*)?\[\s*\{\}')


def matches(head: Head) -> bool:
    """Tell the database by its table of operations, the JSON by its first lines."""
    if head.data.startswith(MAGIC):
        return has_tables(head.path, head.data, "rocpd_op")
    opens = _FIRST.match(head.data)
    return bool(opens) and b'"args":{"desc":' in head.data and b'"name":"GPU' in head.data


def read(path: str, options: ReadOptions) -> Timeline:
    """Read device operations and host calls."""
    builder = TimelineBuilder("rpd", vendor="amd")
    with open(path, "rb") as file:
        is_database = file.read(len(MAGIC)) == MAGIC
    if is_database:
        _read_database(path, builder)
    else:
        data = read_file(path, builder.warnings)
        if data.lstrip().startswith(b"{"):
            events = decode_json(data, Trace, path, builder.warnings).traceEvents
        else:
            events = decode_json(data, list[Event], path, builder.warnings)
        _read_json(events, builder)
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
        details = dict(database.rows("rocpd_ustring", "id", "string")) or strings
        for call, start, end, pid, tid, text, arguments, domain, kind in database.rows(
            "rocpd_api", *_API, "domain_id", "category_id"
        ):
            name = strings.get(text, "unnamed call")
            category = _CATEGORIES.get(strings.get(kind, ""), _category(name))
            if name.startswith(_MARKERS):
                name, category = details.get(arguments) or name, "user_annotation"
            elif strings.get(domain) == "hip":
                category = "cuda_runtime"
            thread = builder.thread(pid or 0, tid or 0)
            builder.host(start, end, builder.name(name), category, thread, call)


def _read_json(events: list[Event], builder: TimelineBuilder) -> None:
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
        kind = str(event.args.get("desc", ""))
        if event.pid in devices:
            if kind.startswith(_FRAME) or "kernels" in event.args:
                continue  # a marker, or a whole graph, above its kernels
            name, category = _work(event.name, kind)
            where = (devices[event.pid], integer(str(event.tid)))
            call = arrows.to_work(event)
            builder.device(begin, end, builder.name(name), category, *where, call)
        else:
            category = _category(event.name)
            thread = builder.thread(event.pid, event.tid)
            call = arrows.from_call(event)
            builder.host(begin, end, builder.name(event.name), category, thread, call)


def _category(name: str) -> str:
    if name.startswith(_CALLS):
        return "cuda_runtime"
    return "cpu_op" if name.startswith(_OPERATORS) else "user_annotation"


def _work(description: str, kind: str) -> tuple[str, str]:
    """Return an operation's name and category; only kernels carry a description of their own."""
    if kind in DIRECTIONS:
        return copy_name(DIRECTIONS[kind]), "gpu_memcpy"
    if kind.startswith("Fill"):
        return kind, "gpu_memset"
    return description or kind or "unnamed kernel", "kernel"
