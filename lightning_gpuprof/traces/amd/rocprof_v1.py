"""Reads the traces of rocprof v1: `results.csv`, `results.db` and `results.json`.

All three hold one row per dispatch with `BeginNs` and `EndNs`. With API tracing the database has
tables `HIP`, `HSA`, `ROCTX`, `COPY` and `OPS` too, and the JSON, a Chrome trace, has a process
for each; there flow arrows lead from calls to what they queued. Checked against a real database
with kernels alone and a real JSON with calls, copies and a kernel; the database's API tables
follow ROCm's own writer (`tblextr.py`).
"""

from collections.abc import Mapping
from typing import Any

from lightning_gpuprof.traces.arrows import Arrows, Event, Trace
from lightning_gpuprof.traces.builder import TimelineBuilder, copy_name
from lightning_gpuprof.traces.counters_csv import warn_of_counters
from lightning_gpuprof.traces.files import csv_header, decode_json, integer, read_csv, read_file
from lightning_gpuprof.traces.options import ReadOptions
from lightning_gpuprof.traces.sniff import Head
from lightning_gpuprof.traces.sqlite import MAGIC, Database, has_tables
from lightning_gpuprof.traces.timeline import Timeline

_CSV_COLUMNS = {"KernelName", "BeginNs", "EndNs"}
_API_TABLES = {"HIP": "cuda_runtime", "HSA": "cuda_driver", "ROCTX": "user_annotation"}
_WHERE = ("gpu-id", "queue-id", "Index")
DIRECTIONS = {
    "CopyHostToDevice": "HtoD",
    "CopyDeviceToHost": "DtoH",
    "CopyDeviceToDevice": "DtoD",
    "hcCommandMarker": "Unknown",
}


def matches(head: Head) -> bool:
    """Tell any of the three by `BeginNs`, which no other profiler writes."""
    if head.data.startswith(MAGIC):
        return has_tables(head.path, head.data, "KERN", "OPS") and not has_tables(
            head.path, head.data, "rocpd_kernel_dispatch"
        )
    if b'"traceEvents"' in head.data:
        return b'"BeginNs"' in head.data
    return csv_header(head.data) >= _CSV_COLUMNS


def read(path: str, options: ReadOptions) -> Timeline:
    """Read kernels, and API calls and copies where they were traced."""
    builder = TimelineBuilder("rocprof", vendor="amd")
    with open(path, "rb") as file:
        start = file.read(len(MAGIC))
    if start == MAGIC:
        _read_database(path, builder)
    elif (data := read_file(path, builder.warnings)).lstrip()[:1] in (b"{", b"["):
        _read_json(data, path, builder)
    else:
        row: Mapping[str, str] = {}
        for row in read_csv(path, builder.warnings):
            _kernel(builder, row)
        warn_of_counters(row, builder.warnings)
    return builder.build()


def _kernel(builder: TimelineBuilder, row: Mapping[str, Any]) -> None:
    # The database was made from CSV, and the quotes around a name came along.
    name = builder.name(str(row["KernelName"]).strip('"'))
    begin, end = integer(str(row["BeginNs"])), integer(str(row["EndNs"]))
    device, queue, index = (integer(str(row.get(key, ""))) for key in _WHERE)
    builder.device(begin, end, name, "kernel", device, queue, index)


def _read_database(path: str, builder: TimelineBuilder) -> None:
    columns = ("KernelName", "BeginNs", "EndNs", *_WHERE)
    with Database(path, builder.warnings) as database:
        if database.has("OPS"):
            # With API tracing the same dispatches are in OPS, where they carry a device.
            _activities(database, "OPS", builder)
        else:
            for row in database.rows("KERN", *columns):
                _kernel(builder, dict(zip(columns, row, strict=True)))
        _activities(database, "COPY", builder)
        for table, category in _API_TABLES.items():
            for begin, end, name, pid, tid, index in database.rows(
                table, "BeginNs", "EndNs", "Name", "pid", "tid", "Index"
            ):
                thread = builder.thread(pid or 0, tid or 0)
                builder.host(
                    integer(str(begin)),
                    integer(str(end)),
                    builder.name(str(name)),
                    category,
                    thread,
                    integer(str(index)),
                )


def _activities(database: Database, table: str, builder: TimelineBuilder) -> None:
    for begin, end, name, device, queue, index in database.rows(
        table, "BeginNs", "EndNs", "Name", "dev-id", "queue-id", "Index"
    ):
        _activity(builder, str(name), begin, end, device, queue, index)


def _activity(builder: TimelineBuilder, name: str, *values: object) -> None:
    begin, end, device, queue, index = (integer(str(value)) for value in values)
    if name in DIRECTIONS:
        text, category = builder.name(copy_name(DIRECTIONS[name])), "gpu_memcpy"
    elif name.startswith("FillBuffer"):
        text, category = builder.name(name), "gpu_memset"
    else:
        text, category = builder.name(name), "kernel"
    builder.device(begin, end, text, category, device, queue, index)


def _read_json(data: bytes, path: str, builder: TimelineBuilder) -> None:
    events = decode_json(data, Trace, path, builder.warnings).traceEvents
    lanes = {
        event.pid: str(event.args.get("name", ""))
        for event in events
        if event.ph == "M" and event.name == "process_name"
    }
    spans = [event for event in events if event.ph == "X" and "BeginNs" in event.args]
    on_host = [event for event in spans if not _is_work(event, lanes)]
    arrows = Arrows(events, on_host)
    for event in spans:
        args, lane = event.args, lanes.get(event.pid, "")
        begin, end = args["BeginNs"], args.get("EndNs", "")
        if _is_work(event, lanes):
            call = arrows.to_work(event) if arrows else args.get("Index", "")
            where = (args.get("dev-id", ""), args.get("queue-id", ""))
            _activity(builder, event.name, begin, end, *where, call)
        else:
            category = next((c for key, c in _API_TABLES.items() if key in lane), "user_annotation")
            call = arrows.from_call(event) if arrows else integer(str(args.get("Index", "")))
            thread = builder.thread(event.pid, event.tid)
            times = (integer(str(begin)), integer(str(end)))
            builder.host(*times, builder.name(event.name), category, thread, call)


def _is_work(event: Event, lanes: Mapping[int | str, str]) -> bool:
    lane = lanes.get(event.pid, "")
    return "GPU" in lane or "COPY" in lane.upper() or "dev-id" in event.args
