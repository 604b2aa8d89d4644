"""Reads the SQLite files of rocmProfileData (`.rpd`).

`rocpd_api` holds calls on the host, `rocpd_op` work on the device, `rocpd_api_ops` joins them;
times are ns. A marker is a call named `UserMarker` with its text in its arguments; from schema 3
on, rows have a domain and a category.
"""

from lightning_gpuprof.traces.amd.rocprof_v1 import DIRECTIONS
from lightning_gpuprof.traces.builder import TimelineBuilder, copy_name
from lightning_gpuprof.traces.sniff import Head, ReadOptions
from lightning_gpuprof.traces.sqlite import Database, has_tables
from lightning_gpuprof.traces.timeline import Timeline

_MARKERS = ("UserMarker", "roctx", "Marker")
_CALLS = ("hip", "__hip", "hsa_", "cuda", "nccl")
_OPERATORS = ("aten::", "autograd::", "torch::")
_CATEGORIES = {"function": "cpu_op", "backward_function": "cpu_op", "user_scope": "user_annotation"}
"""The timeline's category of torch's rows, by their category in schema 3."""
_API = ("id", "start", "end", "pid", "tid", "apiName_id", "args_id")


def matches(head: Head) -> bool:
    """Return whether a file is a database with rocmProfileData's table of operations."""
    return has_tables(head.path, head.data, "rocpd_op")


def read(path: str, options: ReadOptions) -> Timeline:
    """Read device operations and host calls."""
    builder = TimelineBuilder("rpd", vendor="amd")
    with Database(path, builder.warnings) as database:
        strings = database.texts("rocpd_string", "id", "string")
        _operations(database, builder, strings)
        _calls(database, builder, strings)
    return builder.build()


def _operations(database: Database, builder: TimelineBuilder, strings: dict[int, str]) -> None:
    call_of = dict(database.rows("rocpd_api_ops", "op_id", "api_id"))
    sizes = dict(database.rows("rocpd_copyapi", "api_ptr_id", "size"))
    sizes_by_op = dict(database.rows("rocpd_copyop", "op_ptr_id", "size"))
    for op, start, end, gpu, queue, text, kind in database.rows(
        "rocpd_op", "id", "start", "end", "gpuId", "queueId", "description_id", "opType_id"
    ):
        call = call_of.get(op)
        name, category = _work(strings.get(text, ""), strings.get(kind, ""))
        size = sizes_by_op.get(op, sizes.get(call)) if category == "gpu_memcpy" else None
        builder.device(start, end, name, category, gpu, queue, call, size)


def _calls(database: Database, builder: TimelineBuilder, strings: dict[int, str]) -> None:
    details = database.texts("rocpd_ustring", "id", "string") or strings
    for call, start, end, pid, tid, text, arguments, domain, kind in database.rows(
        "rocpd_api", *_API, "domain_id", "category_id"
    ):
        name = strings.get(text, "unnamed call")
        calls = "cuda_runtime" if name.startswith(_CALLS) else "user_annotation"
        usual = "cpu_op" if name.startswith(_OPERATORS) else calls
        category = _CATEGORIES.get(strings.get(kind, ""), usual)
        if name.startswith(_MARKERS):
            name, category = details.get(arguments) or name, "user_annotation"
        elif strings.get(domain) == "hip":
            category = "cuda_runtime"
        builder.host(start, end, name, category, builder.thread(pid, tid), call)


def _work(description: str, kind: str) -> tuple[str, str]:
    """Return an operation's name and category; only kernels carry a description of their own."""
    if kind in DIRECTIONS:
        return copy_name(DIRECTIONS[kind]), "gpu_memcpy"
    if kind.startswith("Fill"):
        return kind, "gpu_memset"
    return description or kind or "unnamed kernel", "kernel"
