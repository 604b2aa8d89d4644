"""Reads rocpd, the SQLite output of rocprofv3 (its default format).

Only the views `kernels`, `memory_copies` and `regions` are read: they have the same columns in all
schema versions (3.0.0 to 3.0.5 and 4.1.0; tested with databases made from these schemas, because no
recorded file was available). `stack_id` is the profiler's correlation id. A marker's text stands in
`extdata`; where that is packed by lz4, the marker has the name of its call.
"""

import msgspec

from lightning_gpuprof.traces.amd.rocprofv3_csv import call_category, direction_of
from lightning_gpuprof.traces.builder import TimelineBuilder, copy_name
from lightning_gpuprof.traces.sniff import Head, ReadOptions
from lightning_gpuprof.traces.sqlite import Database, has_tables
from lightning_gpuprof.traces.timeline import DeviceInfo, Timeline

_INDEXES = ("agent_absolute_index", "agent_abs_index")
"""The device's number among all agents; the name changed between schema versions."""


def matches(head: Head) -> bool:
    """Return whether a file is a database with rocpd's tables."""
    return has_tables(head.path, head.data, "rocpd_kernel_dispatch", "rocpd_region")


def read(path: str, options: ReadOptions) -> Timeline:
    """Read kernels, memory copies and host regions (API calls and markers)."""
    builder = TimelineBuilder("rocpd", vendor="amd")
    with Database(path, builder.warnings) as database:
        for view in ("kernels", "memory_copies", "regions"):
            if not database.has(view, "start", "end"):
                builder.warnings.append(f"The file lacks the view {view}: its events are missing.")
        _kernels(database, builder)
        _copies(database, builder)
        _regions(database, builder)
        return builder.build(devices=_devices(database))


def _kernels(database: Database, builder: TimelineBuilder) -> None:
    index = _index_column(database, "kernels")
    shown = 0
    for name, start, end, device, stream, queue, stack, pid in database.rows(
        "kernels", "name", "start", "end", index, "stream_id", "queue_id", "stack_id", "pid"
    ):
        shown += 1
        number = stream if stream is not None else queue
        call = builder.of_process(stack, pid)
        builder.device(start, end, name, "kernel", device, number, call)
    dispatched = sum(1 for _ in database.rows("rocpd_kernel_dispatch", "id"))
    if dispatched > shown:
        builder.warnings.append(
            f"{dispatched - shown} of {dispatched} kernels are not in the file's view of them: "
            "something that it joins, such as a name or a queue, was not written."
        )


def _copies(database: Database, builder: TimelineBuilder) -> None:
    sides = (_index_column(database, "memory_copies", side) for side in ("src_", "dst_"))
    where = (*sides, "stream_id", "stack_id", "pid", "size")
    for name, start, end, source, target, stream, stack, pid, size in database.rows(
        "memory_copies", "name", "start", "end", *where
    ):
        direction = direction_of(name)
        device = target if direction == "HtoD" else source
        call = builder.of_process(stack, pid)
        builder.device(start, end, copy_name(direction), "gpu_memcpy", device, stream, call, size)


def _regions(database: Database, builder: TimelineBuilder) -> None:
    for name, category, start, end, pid, tid, stack, details in database.rows(
        "regions", "name", "category", "start", "end", "pid", "tid", "stack_id", "extdata"
    ):
        thread = builder.thread(pid, tid)
        kind = call_category(category or "")
        if kind == "user_annotation":
            name = _message(details) or name
        builder.host(start, end, name, kind, thread, builder.of_process(stack, pid))


def _message(details: object) -> str | None:
    """Return a marker's text, from JSON such as `{"message": "epoch 3"}`."""
    try:
        values = msgspec.json.decode(details) if isinstance(details, str | bytes) else {}
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    text = values.get("message") if isinstance(values, dict) else None
    return text if isinstance(text, str) and text else None


def _devices(database: Database) -> list[DeviceInfo]:
    columns = "type absolute_index name model_name product_name vendor_name".split()
    return [
        DeviceInfo(index, product or model or name, vendor.lower() if vendor else None)
        for kind, index, name, model, product, vendor in database.rows("rocpd_info_agent", *columns)
        if kind == "GPU" and index is not None
    ]


def _index_column(database: Database, view: str, side: str = "") -> str:
    """Return the column with the device's index that a view has."""
    names = [side + name for name in _INDEXES]
    return next((name for name in names if database.has(view, name)), names[0])
