"""Reads the traces of rocprof v1: `results.csv` and `results.db`.

Both hold one row per dispatch with `BeginNs` and `EndNs`. With API tracing the database has tables
`HIP`, `HSA`, `ROCTX`, `COPY` and `OPS` too. Checked against a real database with kernels alone; the
API tables follow ROCm's own writer (`tblextr.py`).
"""

from lightning_gpuprof.traces.builder import TimelineBuilder, copy_name
from lightning_gpuprof.traces.files import csv_header, integer, read_csv
from lightning_gpuprof.traces.sniff import Head, ReadOptions, read_head
from lightning_gpuprof.traces.sqlite import MAGIC, Database, has_tables
from lightning_gpuprof.traces.timeline import Timeline

_KERNEL = ("KernelName", "BeginNs", "EndNs", "gpu-id", "queue-id", "Index")
_ACTIVITY = ("Name", "BeginNs", "EndNs", "dev-id", "queue-id", "Index")
_API_TABLES = {"HIP": "cuda_runtime", "HSA": "cuda_driver", "ROCTX": "user_annotation"}
DIRECTIONS = {
    "CopyHostToDevice": "HtoD",
    "CopyDeviceToHost": "DtoH",
    "CopyDeviceToDevice": "DtoD",
    "hcCommandMarker": "Unknown",
}


def matches(head: Head) -> bool:
    """Return whether a file is one of the two; no other profiler writes `BeginNs`."""
    if head.data.startswith(MAGIC):
        return has_tables(head.path, head.data, "KERN", "OPS") and not has_tables(
            head.path, head.data, "rocpd_kernel_dispatch"
        )
    return csv_header(head.data) >= set(_KERNEL[:3])


def read(path: str, options: ReadOptions) -> Timeline:
    """Read kernels, and API calls and copies where they were traced."""
    builder = TimelineBuilder("rocprof", vendor="amd")
    if read_head(path).data.startswith(MAGIC):
        _read_database(path, builder)
    else:
        for row in read_csv(path, builder.warnings):
            _work(builder, *(row.get(column) for column in _KERNEL))
    return builder.build()


def _read_database(path: str, builder: TimelineBuilder) -> None:
    with Database(path, builder.warnings) as database:
        # With API tracing the same dispatches are in OPS, where they carry a device.
        kernels = ("OPS", _ACTIVITY) if database.has("OPS") else ("KERN", _KERNEL)
        for table, columns in (kernels, ("COPY", _ACTIVITY)):
            for row in database.rows(table, *columns):
                _work(builder, *row)
        for table, category in _API_TABLES.items():
            for begin, end, name, pid, tid, index in database.rows(
                table, "BeginNs", "EndNs", "Name", "pid", "tid", "Index"
            ):
                builder.host(begin, end, name, category, builder.thread(pid, tid), index)


def _work(builder: TimelineBuilder, name: str | None, *values: int | str | None) -> None:
    begin, end, device, queue, index = (integer(value) for value in values)
    text = (name or "").strip('"')  # the database was made from CSV, quotes included
    category = "gpu_memset" if text.startswith("FillBuffer") else "kernel"
    if text in DIRECTIONS:
        text, category = copy_name(DIRECTIONS[text]), "gpu_memcpy"
    builder.device(begin, end, text, category, device, queue, index)
