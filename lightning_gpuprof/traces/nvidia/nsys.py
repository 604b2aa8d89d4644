"""Reads the SQLite export of NVIDIA Nsight Systems.

Tables exist only where the recording had such events, and columns vary by version (tested with
schema 3.20 to 3.25). Names come from `StringIds`. Times are ns since the session's
start. `globalTid` packs process and thread into one number. Events of operating-system calls
(`OSRT_API`) and CPU samples are not read.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from statistics import fmean

from lightning_gpuprof.traces.builder import TimelineBuilder, copy_name
from lightning_gpuprof.traces.files import integer
from lightning_gpuprof.traces.sniff import Head, ReadOptions
from lightning_gpuprof.traces.sqlite import Database, has_tables
from lightning_gpuprof.traces.timeline import DeviceInfo, DeviceMetric, Timeline

_CUPTI = "CUPTI_ACTIVITY_KIND_"
_READ = ("KERNEL", "GRAPH_TRACE", "MEMCPY", "MEMSET", "SYNCHRONIZATION")
"""Kinds of device events that are read, and synchronizations, which are no work."""
_COPIES = dict(zip((1, 2, 8, 9, 10), ("HtoD", "DtoH", "DtoD", "HtoH", "PtoP"), strict=True))
_COPIES |= {11: "HtoD", 12: "DtoH", 13: "DtoD"}  # migrations of unified memory
"""`copyKind`, by CUPTI's numbers."""
_MEMORY_KINDS = {0: "Pageable", 1: "Pinned", 2: "Device", 3: "Array", 4: "Managed"}
_RANGES = (59, 60)
"""`NvtxPushPopRange` and `NvtxStartEndRange`; other values are marks, domains and names."""
_VERSION = re.compile(r"_v\d+$|_ptsz$")
_SHARE = " [Throughput %]"
"""Ends the names of metrics in per cent of a peak: SMs Active, Tensor Active, DRAM Read ..."""
_OPERATOR = re.compile(r"^(.*?), (?:seq|op_id|input_op_ids|sizes) = ")
"""`torch.autograd.profiler.emit_nvtx` writes `aten::mm, seq = 4, op_id = 7`."""


def matches(head: Head) -> bool:
    """Return whether a file is a database with tables of Nsight Systems."""
    kinds = (_CUPTI + kind for kind in ("KERNEL", "RUNTIME", "MEMCPY"))
    return has_tables(head.path, head.data, *kinds, "NVTX_EVENTS", "OSRT_API", "META_DATA_EXPORT")


def read(path: str, options: ReadOptions) -> Timeline:
    """Read kernels, copies, fills, API calls, NVTX ranges and synchronizations."""
    builder = TimelineBuilder("nsys", vendor="nvidia")
    with Database(path, builder.warnings) as database:
        strings = database.texts("StringIds", "id", "value")
        _kernels(database, builder, strings)
        _copies(database, builder)
        _calls(database, builder, strings)
        _ranges(database, builder, strings)
        for name_id, packed in database.rows("ThreadNames", "nameId", "globalTid"):
            if name_id in strings and packed is not None:
                builder.name_thread(*_pid_tid(packed), strings[name_id])
        metrics = _metrics(database)
        builder.warnings.extend(_unread(database))
        return replace(builder.build(devices=_devices(database)), metrics=metrics)


def _metrics(database: Database) -> list[DeviceMetric]:
    """Sum up what `--gpu-metrics-device` sampled, from the first kernel to the last."""
    columns = ("typeId", "metricId")
    names = {
        (kind, metric): name.removesuffix(_SHARE)
        for kind, metric, name in database.rows("TARGET_INFO_GPU_METRICS", *columns, "metricName")
        if kind is not None and name is not None and name.endswith(_SHARE)
    }
    kernels = database.rows(_CUPTI + "KERNEL", "start") if names else iter(())
    starts = [start for (start,) in kernels if start is not None] or [0]
    begin, end = min(starts), max(starts)
    samples: dict[tuple[str, int], list[int]] = {}
    for at, text, kind, metric in database.rows("GPU_METRICS", "timestamp", "value", *columns):
        name, value = names.get((kind, metric)), integer(text)
        if name is not None and value is not None and begin <= (at or 0) <= end:
            samples.setdefault((name, kind), []).append(value)
    kinds = sorted({kind for _, kind in samples})  # each sampled device has its own
    return [
        DeviceMetric(name, kinds.index(kind), len(values), fmean(values) / 100, max(values) / 100)
        for (name, kind), values in sorted(samples.items())
    ]


def _unread(database: Database) -> Iterator[str]:
    """Yield a warning for each table of device work that this reader does not know."""
    read = {database.named(_CUPTI + kind) for kind in _READ}
    for table in sorted(set(database.tables) - read):
        on_device = {"deviceId", "streamId"} & set(database.tables[table])
        if table.startswith("CUPTI_") and on_device and database.has(table, "start", "end"):
            count = sum(1 for _ in database.rows(table, "start"))
            yield f"Table {table} is not known here: {count} events of the device are left out."


def _kernels(database: Database, builder: TimelineBuilder, strings: dict[int, str]) -> None:
    where = ("deviceId", "streamId", "correlationId", "globalPid")
    long_names = database.has(_CUPTI + "KERNEL", "demangledName")
    name_column = "demangledName" if long_names else "shortName"
    for start, end, key, device, stream, call, process in database.rows(
        _CUPTI + "KERNEL", "start", "end", name_column, *where
    ):
        columns = (device, stream, _of_process(builder, call, process))
        builder.device(start, end, strings.get(key, "unnamed kernel"), "kernel", *columns)
    graphs = 0
    for start, end, number, device, stream, call, process in database.rows(
        _CUPTI + "GRAPH_TRACE", "start", "end", "graphId", *where
    ):
        graphs += 1
        columns = (device, stream, _of_process(builder, call, process))
        builder.device(start, end, f"CUDA graph {number}", "kernel", *columns)
    if graphs:
        builder.warnings.append(
            f"{graphs} CUDA graph launches were recorded as a whole, so their kernels are not "
            "known. Record with --cuda-graph-trace=node to see them."
        )


def _copies(database: Database, builder: TimelineBuilder) -> None:
    where = ("deviceId", "streamId", "correlationId", "bytes", "globalPid")
    for start, end, kind, source, target, device, stream, call, size, process in database.rows(
        _CUPTI + "MEMCPY", "start", "end", "copyKind", "srcKind", "dstKind", *where
    ):
        kinds = (_MEMORY_KINDS.get(source), _MEMORY_KINDS.get(target))
        name = copy_name(_COPIES.get(kind, "Unknown"), *kinds)
        call = _of_process(builder, call, process)
        builder.device(start, end, name, "gpu_memcpy", device, stream, call, size)
    for start, end, kind, device, stream, call, size, process in database.rows(
        _CUPTI + "MEMSET", "start", "end", "memKind", *where
    ):
        name = f"Memset ({_MEMORY_KINDS.get(kind, 'Unknown')})"
        call = _of_process(builder, call, process)
        builder.device(start, end, name, "gpu_memset", device, stream, call, size)


def _calls(database: Database, builder: TimelineBuilder, strings: dict[int, str]) -> None:
    for start, end, key, packed, call in database.rows(
        _CUPTI + "RUNTIME", "start", "end", "nameId", "globalTid", "correlationId"
    ):
        name, category = _call(strings.get(key, "unnamed call"))
        call = _of_process(builder, call, packed)
        builder.host(start, end, name, category, builder.thread(*_pid_tid(packed)), call)


@cache
def _call(text: str) -> tuple[str, str]:
    """Return an API function's name without its version, and its category."""
    driver = text.startswith("cu") and not text.startswith("cuda")
    return _VERSION.sub("", text), "cuda_driver" if driver else "cuda_runtime"


def _ranges(database: Database, builder: TimelineBuilder, strings: dict[int, str]) -> None:
    for start, end, kind, text, text_id, packed in database.rows(
        "NVTX_EVENTS", "start", "end", "eventType", "text", "textId", "globalTid"
    ):
        if kind not in _RANGES:
            continue
        label = text if text is not None else strings.get(text_id, "unnamed range")
        operator = _OPERATOR.match(label)
        name, category = (operator[1], "cpu_op") if operator else (label, "user_annotation")
        builder.host(start, end, name, category, builder.thread(*_pid_tid(packed)))


def _devices(database: Database) -> list[DeviceInfo]:
    numbers: dict[int, int] = {}
    for gpu, number in database.rows("TARGET_INFO_CUDA_DEVICE", "gpuId", "cudaId"):
        if number is not None:
            numbers.setdefault(gpu, number)
    devices = {}
    for gpu, name, memory, units in database.rows(
        "TARGET_INFO_GPU", "id", "name", "totalMemory", "smCount"
    ):
        if gpu is None:
            continue
        known = {"totalGlobalMem": memory, "numSms": units}
        properties = {key: value for key, value in known.items() if value is not None}
        number = numbers.get(gpu, gpu)
        devices[number] = DeviceInfo(number, name, "nvidia", properties)
    return [devices[number] for number in sorted(devices)]


def _of_process(builder: TimelineBuilder, call: int | None, packed: int | None) -> int | None:
    """Make a correlation id unique; `packed` is a `globalPid`, or a `globalTid` of the process."""
    return builder.of_process(call, None if packed is None else packed >> 24)


def _pid_tid(packed: int | None) -> tuple[int, int]:
    """Return the process and thread that are packed in a number; 0 and 0 where there is none."""
    both = packed or 0
    return (both >> 24) & 0xFFFFFF, both & 0xFFFFFF
