"""Reads the SQLite files of rocmProfileData (`.rpd`), from which rocpd took its name.

`rocpd_api` holds calls on the host, `rocpd_op` work on the device, `rocpd_api_ops` which call
queued what. Times are ns. Written from the published schema; no real file was at hand.
"""

from lightning_gpuprof.traces.builder import TimelineBuilder, copy_name
from lightning_gpuprof.traces.options import ReadOptions
from lightning_gpuprof.traces.rocprof_v1 import DIRECTIONS
from lightning_gpuprof.traces.sniff import Head
from lightning_gpuprof.traces.sqlite import Database, has_tables
from lightning_gpuprof.traces.timeline import Timeline

_MARKERS = ("UserMarker", "roctx", "Marker")


def matches(head: Head) -> bool:
    """Tell the file by its table of operations."""
    return has_tables(head.path, head.data, "rocpd_op")


def read(path: str, options: ReadOptions) -> Timeline:
    """Read device operations and host calls."""
    builder = TimelineBuilder("rpd")
    with Database(path, builder.warnings) as database:
        strings = dict(database.rows("rocpd_string", "id", "string"))
        call_of = dict(database.rows("rocpd_api_ops", "op_id", "api_id"))
        sizes = dict(database.rows("rocpd_copyapi", "api_ptr_id", "size"))
        for op, start, end, gpu, queue, text, kind in database.rows(
            "rocpd_op", "id", "start", "end", "gpuId", "queueId", "description_id", "opType_id"
        ):
            call = call_of.get(op)
            name, category = _work(strings.get(text, ""), strings.get(kind, ""))
            size = sizes.get(call) if category == "gpu_memcpy" else None
            index = builder.name(name)
            builder.device(start, end, index, category, gpu, queue, call, size)
        for call, start, end, pid, tid, text in database.rows(
            "rocpd_api", "id", "start", "end", "pid", "tid", "apiName_id"
        ):
            name = strings.get(text, "unnamed call")
            category = "user_annotation" if name.startswith(_MARKERS) else "cuda_runtime"
            thread = builder.thread(pid or 0, tid or 0)
            builder.host(start, end, builder.name(name), category, thread, call)
    return builder.build()


def _work(description: str, kind: str) -> tuple[str, str]:
    """Return an operation's name and category; only kernels carry a description of their own."""
    if kind in DIRECTIONS:
        return copy_name(DIRECTIONS[kind]), "gpu_memcpy"
    if kind.startswith("Fill"):
        return kind, "gpu_memset"
    return description or kind or "unnamed kernel", "kernel"
