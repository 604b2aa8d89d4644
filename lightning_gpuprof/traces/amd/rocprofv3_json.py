"""Reads the JSON results of rocprofv3 (`rocprofiler-sdk-tool`), gzipped or not.

Records name a kernel, an operation and an agent by number; the file's own tables resolve them.
Times are ns. Seen from rocprofiler-sdk of December 2025, with kernel records only; the other
kinds follow its writer and its own tests, and could not be checked against a real file.
"""

from itertools import chain
from typing import Any

import msgspec

from lightning_gpuprof.traces.amd.rocprofv3_csv import call_category, direction_of
from lightning_gpuprof.traces.builder import TimelineBuilder, copy_name
from lightning_gpuprof.traces.files import decode_json, read_file
from lightning_gpuprof.traces.options import ReadOptions
from lightning_gpuprof.traces.sniff import Head
from lightning_gpuprof.traces.timeline import DeviceInfo, Timeline

_GPU = 2


class _Handle(msgspec.Struct):
    handle: int = -1


class _Correlation(msgspec.Struct):
    internal: int = -1


class _Agent(msgspec.Struct):
    id: _Handle
    type: int
    node_id: int = -1
    name: str = ""
    product_name: str = ""
    cu_count: int = 0


class _Symbol(msgspec.Struct):
    kernel_id: int
    formatted_kernel_name: str = ""
    kernel_name: str = ""


class _Strings(msgspec.Struct):
    kind: str = ""
    operations: list[str] = []


class _Message(msgspec.Struct):
    key: int
    value: str


class _AllStrings(msgspec.Struct):
    buffer_records: list[_Strings] = []
    marker_api: list[_Message] = []


class _Dispatch(msgspec.Struct):
    agent_id: _Handle
    queue_id: _Handle
    kernel_id: int


class _Kernel(msgspec.Struct):
    start_timestamp: int
    end_timestamp: int
    dispatch_info: _Dispatch
    correlation_id: _Correlation = msgspec.field(default_factory=_Correlation)
    stream_id: _Handle | None = None


class _Copy(msgspec.Struct):
    kind: int
    operation: int
    start_timestamp: int
    end_timestamp: int
    src_agent_id: _Handle = msgspec.field(default_factory=_Handle)
    dst_agent_id: _Handle = msgspec.field(default_factory=_Handle)
    correlation_id: _Correlation = msgspec.field(default_factory=_Correlation)
    stream_id: _Handle | None = None
    bytes: int | None = None


class _Call(msgspec.Struct):
    kind: int
    operation: int
    start_timestamp: int
    end_timestamp: int
    thread_id: int = 0
    correlation_id: _Correlation = msgspec.field(default_factory=_Correlation)


class _Records(msgspec.Struct):
    kernel_dispatch: list[_Kernel] = []
    memory_copy: list[_Copy] = []
    hip_api: list[_Call] = []
    hsa_api: list[_Call] = []
    rccl_api: list[_Call] = []
    rocdecode_api: list[_Call] = []
    rocjpeg_api: list[_Call] = []
    memory_allocation: list[_Call] = []
    marker_api: list[_Call] = []


class _Metadata(msgspec.Struct):
    pid: int = 0


class _Tool(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    agents: list[_Agent] = []
    strings: _AllStrings = msgspec.field(default_factory=_AllStrings)
    kernel_symbols: list[_Symbol] = []
    buffer_records: _Records = msgspec.field(default_factory=_Records)


class _File(msgspec.Struct):
    tools: list[_Tool] = msgspec.field(name="rocprofiler-sdk-tool", default_factory=list)


def matches(head: Head) -> bool:
    """Tell the file by its one top-level key."""
    return b'"rocprofiler-sdk-tool"' in head.data[:256]


def read(path: str, options: ReadOptions) -> Timeline:
    """Read kernels, copies and API calls of every process in the file."""
    builder = TimelineBuilder("rocprofv3-json", vendor="amd")
    content = decode_json(read_file(path, builder.warnings), _File, path, builder.warnings)
    devices: dict[int, DeviceInfo] = {}
    for tool in content.tools:
        agents = {agent.id.handle: agent for agent in tool.agents}
        _kernels(builder, tool, agents)
        _copies(builder, tool, agents)
        _calls(builder, tool)
        for agent in tool.agents:
            if agent.type == _GPU:
                name = agent.product_name or agent.name
                devices[agent.node_id] = DeviceInfo(
                    agent.node_id, name, "amd", {"numSms": agent.cu_count}
                )
    return builder.build(devices=list(devices.values()))


def _kernels(builder: TimelineBuilder, tool: _Tool, agents: dict[int, _Agent]) -> None:
    offset = builder.process_offset(tool.metadata.pid)
    symbols = {
        symbol.kernel_id: builder.name(symbol.formatted_kernel_name or symbol.kernel_name)
        for symbol in _used_symbols(tool)
    }
    unnamed = builder.name("unnamed kernel")
    for record in tool.buffer_records.kernel_dispatch:
        info = record.dispatch_info
        builder.device(
            record.start_timestamp,
            record.end_timestamp,
            symbols.get(info.kernel_id, unnamed),
            "kernel",
            _node(agents, info.agent_id),
            _stream(record.stream_id, info.queue_id),
            record.correlation_id.internal + offset,
        )


def _used_symbols(tool: _Tool) -> list[_Symbol]:
    """Leave out the thousands of symbols that were loaded but never launched."""
    used = {record.dispatch_info.kernel_id for record in tool.buffer_records.kernel_dispatch}
    return [symbol for symbol in tool.kernel_symbols if symbol.kernel_id in used]


def _copies(builder: TimelineBuilder, tool: _Tool, agents: dict[int, _Agent]) -> None:
    offset = builder.process_offset(tool.metadata.pid)
    for record in tool.buffer_records.memory_copy:
        direction = direction_of(_operation(tool, record))
        on = record.dst_agent_id if direction == "HtoD" else record.src_agent_id
        builder.device(
            record.start_timestamp,
            record.end_timestamp,
            builder.name(copy_name(direction)),
            "gpu_memcpy",
            _node(agents, on),
            _stream(record.stream_id, None),
            record.correlation_id.internal + offset,
            record.bytes,
        )


def _calls(builder: TimelineBuilder, tool: _Tool) -> None:
    offset = builder.process_offset(tool.metadata.pid)
    records = tool.buffer_records
    apis = (records.hip_api, records.hsa_api, records.rccl_api, records.rocdecode_api)
    for call in chain(*apis, records.rocjpeg_api, records.memory_allocation):
        kinds = tool.strings.buffer_records
        domain = kinds[call.kind].kind if call.kind < len(kinds) else ""
        _add(builder, tool, call, _operation(tool, call), call_category(domain), offset)
    # A marker's text is listed under its correlation id; the operation is roctx's function.
    messages = {message.key: message.value for message in tool.strings.marker_api}
    for marker in records.marker_api:
        text = messages.get(marker.correlation_id.internal) or _operation(tool, marker)
        _add(builder, tool, marker, text, "user_annotation", offset)


def _add(
    builder: TimelineBuilder, tool: _Tool, call: _Call, name: str, category: str, offset: int
) -> None:
    thread = builder.thread(tool.metadata.pid, call.thread_id)
    start, end = call.start_timestamp, call.end_timestamp
    internal = call.correlation_id.internal + offset
    builder.host(start, end, builder.name(name), category, thread, internal)


def _operation(tool: _Tool, record: Any) -> str:
    kinds = tool.strings.buffer_records
    operations = kinds[record.kind].operations if record.kind < len(kinds) else []
    known = record.operation < len(operations)
    return operations[record.operation] if known else f"operation {record.operation}"


def _node(agents: dict[int, _Agent], agent: _Handle) -> int | None:
    return agents[agent.handle].node_id if agent.handle in agents else None


def _stream(stream: _Handle | None, queue: _Handle | None) -> int | None:
    if stream is not None:
        return stream.handle
    return queue.handle if queue is not None else None
