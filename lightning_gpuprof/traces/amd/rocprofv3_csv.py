"""Reads the CSV traces of rocprofv3: kernels, copies, allocations, API calls and markers.

Each file holds one kind of event, shown by its header; columns vary by version, agents are
written as `1` or `Agent 1`. Times are ns. Files of rocprofv2 name some columns differently
(`GPU_ID`, `Correlation_ID`) and have an empty column of kernels beside API calls.
"""

from collections.abc import Mapping

from lightning_gpuprof.traces.builder import TimelineBuilder, copy_name
from lightning_gpuprof.traces.files import csv_header, integer, read_csv
from lightning_gpuprof.traces.sniff import Head, ReadOptions
from lightning_gpuprof.traces.timeline import Timeline

_TIMES = {"Start_Timestamp", "End_Timestamp"}
_KINDS = [{"Kernel_Name"}, {"Direction"}, {"Domain", "Function"}, {"Operation", "Allocation_Size"}]
_COUNTERS = {"Counter_Name"}
_STREAMS = ("Stream_Id", "Queue_Id", "Queue_ID")
_DIRECTIONS = {
    "HOST_TO_DEVICE": "HtoD",
    "DEVICE_TO_HOST": "DtoH",
    "DEVICE_TO_DEVICE": "DtoD",
    "HOST_TO_HOST": "HtoH",
}


def matches(head: Head) -> bool:
    """Return whether the header is that of a trace."""
    header = csv_header(head.data)
    return header >= _TIMES and any(map(header.issuperset, _KINDS)) and not header & _COUNTERS


def read(path: str, options: ReadOptions) -> Timeline:
    """Read a CSV file; of a run with several files each is read by itself."""
    builder = TimelineBuilder("rocprofv3-csv", vendor="amd")
    for row in read_csv(path, builder.warnings):
        start, end = integer(row["Start_Timestamp"]), integer(row["End_Timestamp"])
        correlation = integer(row.get("Correlation_Id", row.get("Correlation_ID")))
        if "Kernel_Name" in row and "Function" not in row:
            name, device = row["Kernel_Name"], agent(row.get("Agent_Id", row.get("GPU_ID")))
            builder.device(start, end, name, "kernel", device, _stream(row), correlation)
        elif "Direction" in row:
            direction = direction_of(row["Direction"])
            side = "Destination_Agent_Id" if direction == "HtoD" else "Source_Agent_Id"
            where = (agent(row.get(side)), _stream(row), correlation, integer(row.get("Size")))
            builder.device(start, end, copy_name(direction), "gpu_memcpy", *where)
        else:
            thread = builder.thread(integer(row.get("Process_Id")), integer(row.get("Thread_Id")))
            name = row["Function"] if "Function" in row else row["Operation"]
            category = call_category(row.get("Domain", ""))
            builder.host(start, end, name, category, thread, correlation)
    return builder.build()


def agent(text: str | None) -> int | None:
    """Read an agent's number: `1` or `Agent 1`."""
    return integer(text.split()[-1]) if text and text.split() else None


def call_category(domain: str) -> str:
    """Return the category of an API's calls: HIP's stand beside CUDA's runtime, HSA's below."""
    if domain.startswith("HIP"):
        return "cuda_runtime"
    if domain.startswith("HSA"):
        return "cuda_driver"
    return "user_annotation" if domain.startswith(("MARKER", "ROCTX")) else "other"


def direction_of(text: str | None) -> str:
    """Return the short form of a copy's direction, such as `MEMORY_COPY_HOST_TO_DEVICE`."""
    return _DIRECTIONS.get((text or "").removeprefix("MEMORY_COPY_"), "Unknown")


def _stream(row: Mapping[str, str]) -> int | None:
    numbers = (integer(row.get(column)) for column in _STREAMS)
    return next((number for number in numbers if number is not None), None)
