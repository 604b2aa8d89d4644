"""Reads the SQLite export of NVIDIA Nsight Systems.

Tables exist only where the recording had such events, and columns vary by version; schema
versions 3.20 to 3.25 were seen. Names come from `StringIds`. Times are ns since the session's
start. `globalTid` packs process and thread into one number. Events of operating-system calls
(`OSRT_API`) and CPU samples are not read.
"""

import re

from lightning_gpuprof.traces.builder import TimelineBuilder, copy_name
from lightning_gpuprof.traces.options import ReadOptions
from lightning_gpuprof.traces.sniff import Head
from lightning_gpuprof.traces.sqlite import Database, has_tables
from lightning_gpuprof.traces.timeline import DeviceInfo, Timeline

_CUPTI = "CUPTI_ACTIVITY_KIND_"
_COPIES = {
    1: "HtoD",
    2: "DtoH",
    8: "DtoD",
    9: "HtoH",
    10: "PtoP",
    11: "HtoD",
    12: "DtoH",
    13: "DtoD",
}
"""`copyKind`, by CUPTI's numbers; 11 to 13 are migrations of unified memory."""
_MEMORY_KINDS = {0: "Pageable", 1: "Pinned", 2: "Device", 3: "Array", 4: "Managed"}
_SYNCS = {1: "Event Sync", 2: "Stream Wait Event", 3: "Stream Sync", 4: "Context Sync"}
_RANGES = (59, 60)
"""`NvtxPushPopRange` and `NvtxStartEndRange`; marks, domains and names are no ranges."""
_VERSION = re.compile(r"_v\d+$|_ptsz$")
_OPERATOR = re.compile(r"^(.*?), (?:seq|op_id|input_op_ids|sizes) = ")
"""`torch.autograd.profiler.emit_nvtx` writes `aten::mm, seq = 4, op_id = 7`."""
_NO_STREAM = 2**32 - 1


def matches(head: Head) -> bool:
    """Tell an export of Nsight Systems by its tables."""
    return has_tables(head.path, head.data, *(_CUPTI + k for k in ("KERNEL", "RUNTIME", "MEMCPY")))


def read(path: str, options: ReadOptions) -> Timeline:
    """Read kernels, copies, fills, API calls, NVTX ranges and synchronizations."""
    builder = TimelineBuilder("nsys")
    with Database(path, builder.warnings) as database:
        strings = dict(database.rows("StringIds", "id", "value"))
        _kernels(database, builder, strings)
        _copies(database, builder)
        _calls(database, builder, strings)
        _ranges(database, builder, strings)
        _syncs(database, builder)
        metadata = dict(database.rows("META_DATA_EXPORT", "name", "value"))
        return builder.build(devices=_devices(database), metadata=metadata)


def _kernels(database: Database, builder: TimelineBuilder, strings: dict[int, str]) -> None:
    ids: dict[tuple[int | None, int | None], int] = {}
    where = ("deviceId", "streamId", "correlationId")
    for start, end, long, short, device, stream, correlation, graph in database.rows(
        _CUPTI + "KERNEL", "start", "end", "demangledName", "shortName", *where, "graphId"
    ):
        name = ids.get((long, short))
        if name is None:
            name = builder.name(strings.get(long) or strings.get(short) or "unnamed kernel")
            ids[long, short] = name
        builder.device(start, end, name, "kernel", device, stream, correlation, graph=graph)
    graphs = 0
    for start, end, graph, device, stream, correlation in database.rows(
        _CUPTI + "GRAPH_TRACE", "start", "end", "graphId", *where
    ):
        graphs += 1
        name = builder.name(f"CUDA graph {graph}")
        builder.device(start, end, name, "kernel", device, stream, correlation, graph=graph)
    if graphs:
        builder.warnings.append(
            f"{graphs} CUDA graph launches were recorded as a whole, so their kernels are not "
            "known. Record with --cuda-graph-trace=node to see them."
        )


def _copies(database: Database, builder: TimelineBuilder) -> None:
    where = ("deviceId", "streamId", "correlationId", "bytes")
    for start, end, kind, source, target, *rest in database.rows(
        _CUPTI + "MEMCPY", "start", "end", "copyKind", "srcKind", "dstKind", *where
    ):
        kinds = (_MEMORY_KINDS.get(source), _MEMORY_KINDS.get(target))
        name = builder.name(copy_name(_COPIES.get(kind, "Unknown"), *kinds))
        builder.device(start, end, name, "gpu_memcpy", *rest)
    for start, end, kind, *rest in database.rows(
        _CUPTI + "MEMSET", "start", "end", "memKind", *where
    ):
        name = builder.name(f"Memset ({_MEMORY_KINDS.get(kind, 'Unknown')})")
        builder.device(start, end, name, "gpu_memset", *rest)


def _calls(database: Database, builder: TimelineBuilder, strings: dict[int, str]) -> None:
    for start, end, name_id, thread, correlation in database.rows(
        _CUPTI + "RUNTIME", "start", "end", "nameId", "globalTid", "correlationId"
    ):
        text = _VERSION.sub("", strings.get(name_id, "unnamed call"))
        driver = text.startswith("cu") and not text.startswith("cuda")
        category = "cuda_driver" if driver else "cuda_runtime"
        builder.host(
            start, end, builder.name(text), category, _thread(builder, thread), correlation
        )


def _ranges(database: Database, builder: TimelineBuilder, strings: dict[int, str]) -> None:
    still_open = 0
    for start, end, kind, text, text_id, thread in database.rows(
        "NVTX_EVENTS", "start", "end", "eventType", "text", "textId", "globalTid"
    ):
        if kind not in _RANGES:
            continue
        if end is None:
            still_open += 1
            continue
        label = text if text is not None else strings.get(text_id, "unnamed range")
        operator = _OPERATOR.match(label)
        category = "cpu_op" if operator else "user_annotation"
        name = builder.name(operator[1] if operator else label)
        builder.host(start, end, name, category, _thread(builder, thread))
    if still_open:
        builder.warnings.append(
            f"{still_open} NVTX ranges were still open when the recording ended; left out."
        )


def _syncs(database: Database, builder: TimelineBuilder) -> None:
    for start, end, kind, device, stream, correlation in database.rows(
        _CUPTI + "SYNCHRONIZATION",
        "start",
        "end",
        "syncType",
        "deviceId",
        "streamId",
        "correlationId",
    ):
        name = builder.name(_SYNCS.get(kind, "Unknown Sync"))
        stream = None if stream == _NO_STREAM else stream
        builder.device(start, end, name, "cuda_sync", device, stream, correlation)


def _devices(database: Database) -> list[DeviceInfo]:
    numbers: dict[int, int] = {}
    for gpu, number in database.rows("TARGET_INFO_CUDA_DEVICE", "gpuId", "cudaId"):
        numbers.setdefault(gpu, number)
    found = {}
    for gpu, name, memory, units in database.rows(
        "TARGET_INFO_GPU", "id", "name", "totalMemory", "smCount"
    ):
        if gpu is None:
            continue
        known = {"totalGlobalMem": memory, "numSms": units}
        properties = {key: value for key, value in known.items() if value is not None}
        number = numbers.get(gpu, gpu)
        found[number] = DeviceInfo(number, name, "NVIDIA", properties)
    return [found[number] for number in sorted(found)]


def _thread(builder: TimelineBuilder, packed: int | None) -> int:
    if packed is None:
        return builder.thread(0, 0)
    return builder.thread((packed >> 24) & 0xFFFFFF, packed & 0xFFFFFF)
