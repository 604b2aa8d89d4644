"""Reads the JSON results of rocprofv3 (`rocprofiler-sdk-tool`), gzipped or not.

Records name a kernel, an operation and an agent by number; the file's own tables resolve them.
Times are ns. Tested with a file of rocprofiler-sdk of December 2025 that holds kernel records only;
the other kinds follow its writer and its own tests.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from lightning_gpuprof.traces.amd.rocprofv3_csv import call_category, direction_of
from lightning_gpuprof.traces.builder import TimelineBuilder, copy_name
from lightning_gpuprof.traces.files import is_utf8, read_file
from lightning_gpuprof.traces.sniff import Head, ReadOptions
from lightning_gpuprof.traces.timeline import DeviceInfo, Timeline

_GPU = 2
_APIS = ("hip_api", "hsa_api", "rccl_api", "rocdecode_api", "rocjpeg_api", "memory_allocation")
Record = dict[str, Any]


def matches(head: Head) -> bool:
    """Return whether a file has the only top-level key of these results."""
    return b'"rocprofiler-sdk-tool"' in head.data[:256]


def read(path: str, options: ReadOptions) -> Timeline:
    """Read kernels, copies and API calls of every process in the file."""
    builder = TimelineBuilder("rocprofv3-json", vendor="amd")
    devices: dict[int, DeviceInfo] = {}
    content = _decoded(read_file(path, builder.warnings))
    for tool in content.get("rocprofiler-sdk-tool", ()):
        _Process(builder, tool).read()
        for agent in tool.get("agents", ()):
            if agent["type"] == _GPU:
                number, name = agent["node_id"], agent.get("product_name") or agent.get("name")
                units = {"numSms": agent.get("cu_count", 0)}
                devices[number] = DeviceInfo(number, name, "amd", units)
    return builder.build(devices=list(devices.values()))


def _decoded(text: bytearray) -> Record:
    try:
        return msgspec.json.decode(text, type=Record)
    except (UnicodeDecodeError, msgspec.DecodeError):
        # From 0.23 on, msgspec raises the same for a name that is not UTF-8 and for other damage.
        if is_utf8(text):
            raise
        # As a str the text may take four times the memory.
        return msgspec.json.decode(text.decode("utf-8", "replace"), type=Record)


class _Process:
    """One process of the file, with its tables of names by number."""

    def __init__(self, builder: TimelineBuilder, tool: Record) -> None:
        self._builder, self._tool = builder, tool
        self._pid = tool.get("metadata", {}).get("pid", 0)
        self._nodes = {a["id"]["handle"]: a.get("node_id", -1) for a in tool.get("agents", ())}
        strings = tool.get("strings", {})
        self._kinds = strings.get("buffer_records", [])
        # A marker's text is listed under its correlation id.
        self._messages = {entry["key"]: entry["value"] for entry in strings.get("marker_api", ())}

    def read(self) -> None:
        """Add the process's records to the timeline."""
        symbols = {symbol["kernel_id"]: symbol for symbol in self._tool.get("kernel_symbols", ())}
        for record in self._records("kernel_dispatch"):
            info = record["dispatch_info"]
            symbol = symbols.get(info["kernel_id"], {})
            name = symbol.get("formatted_kernel_name") or symbol.get("kernel_name")
            device = self._nodes.get(info["agent_id"]["handle"])
            stream = (record.get("stream_id") or info["queue_id"])["handle"]
            name = name or "unnamed kernel"
            self._builder.device(*_times(record), name, "kernel", device, stream, self._id(record))
        for record in self._records("memory_copy"):
            direction = direction_of(self._operation(record))
            agent = record.get("dst_agent_id" if direction == "HtoD" else "src_agent_id") or {}
            device, stream = self._nodes.get(agent.get("handle")), record.get("stream_id") or {}
            where = (device, stream.get("handle"), self._id(record), record.get("bytes"))
            self._builder.device(*_times(record), copy_name(direction), "gpu_memcpy", *where)
        for api in _APIS:
            for call in self._records(api):
                self._call(call, self._operation(call), call_category(self._kind(call)))
        for marker in self._records("marker_api"):
            text = self._messages.get(marker.get("correlation_id", {}).get("internal"))
            self._call(marker, text or self._operation(marker), "user_annotation")

    def _records(self, kind: str) -> Iterator[Record]:
        return iter(self._tool.get("buffer_records", {}).get(kind, ()))

    def _call(self, call: Record, name: str, category: str) -> None:
        thread = self._builder.thread(self._pid, call.get("thread_id", 0))
        self._builder.host(*_times(call), name, category, thread, self._id(call))

    def _id(self, record: Record) -> int | None:
        internal: int = record.get("correlation_id", {}).get("internal", -1)
        return self._builder.of_process(internal, self._pid)

    def _kind(self, record: Record) -> str:
        known = record["kind"] < len(self._kinds)
        return str(self._kinds[record["kind"]].get("kind", "")) if known else ""

    def _operation(self, record: Record) -> str:
        kind, number = record["kind"], record["operation"]
        operations = self._kinds[kind].get("operations", []) if kind < len(self._kinds) else []
        return operations[number] if number < len(operations) else f"operation {number}"


def _times(record: Record) -> tuple[int, int]:
    return record["start_timestamp"], record["end_timestamp"]
