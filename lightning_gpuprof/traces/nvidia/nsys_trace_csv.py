"""Reads the timelines that `nsys stats --format csv` prints: events of devices and of threads.

`cuda_gpu_trace` has a row per kernel, copy and fill, `cuda_api_trace` one per call,
`cuda_kern_exec_trace` one per launch with its kernel, `nvtx_pushpop_trace` one per range. Columns
are headed with their unit (`Start (ns)`). Bytes are given in MB with three decimals, so sizes are
exact to 500 bytes. The SQLite export holds more: syncs, all ranges and exact sizes.
"""

import re
from collections.abc import Mapping

from lightning_gpuprof.traces.builder import TimelineBuilder, copy_name
from lightning_gpuprof.traces.files import integer, read_text, scaled
from lightning_gpuprof.traces.nvidia.nsys import call_category, call_name, range_category
from lightning_gpuprof.traces.nvidia.nsys_reports import Row, column, header_of, reports, rows_of
from lightning_gpuprof.traces.options import ReadOptions
from lightning_gpuprof.traces.sniff import Head
from lightning_gpuprof.traces.timeline import DeviceInfo, Timeline

_DEVICE = re.compile(r"(.*) \((\d+)\)$")
_COPY = re.compile(
    r"\[CUDA memcpy (\w+)[- ]to[- ](\w+)|\[CUDA memcpy ([HDP]to[HDP])", re.IGNORECASE
)
_SIDES = {"host": "H", "device": "D", "peer": "P"}
_SIZE_UNITS = {
    "byte": 1,
    "bytes": 1,
    "B": 1,
    "KB": 1_000,
    "KiB": 1 << 10,
    "MB": 1_000_000,
    "MiB": 1 << 20,
    "GB": 1_000_000_000,
    "GiB": 1 << 30,
}


def matches(head: Head) -> bool:
    """Tell any of the reports by its header, wherever it begins."""
    text = head.data.decode("utf-8", "replace")
    return any(_kind(header_of(block)) for block in reports(text))


def read(path: str, options: ReadOptions) -> Timeline:
    """Read the first report of each kind that has times."""
    builder = TimelineBuilder("nsys-trace-csv", vendor="nvidia")
    found: dict[str, list[str]] = {}
    left_out = 0
    for block in reports(read_text(path, builder.warnings)):
        kind = _kind(header_of(block))
        if kind and kind not in found:
            found[kind] = block
        else:
            left_out += 1
    if {"work", "call"} & set(found):
        left_out += found.pop("launch", None) is not None  # it repeats what these hold
    names: dict[int, str] = {}
    for kind, block in found.items():
        for number, row in enumerate(rows_of(block, builder.warnings), 1):
            if kind == "work":
                _work_row(builder, row, names)
            elif kind == "call":
                _call_row(builder, row)
            elif kind == "range":
                _range_row(builder, row)
            else:
                _launch_row(builder, row, number)
    if left_out:
        builder.warnings.append(
            f"{left_out} more reports in the file are left out: they are sums, or repeat what is "
            "read."
        )
    devices = [DeviceInfo(number, name, "nvidia") for number, name in sorted(names.items())]
    return builder.build(devices=devices)


def _kind(header: list[str]) -> str | None:
    titles = {name.split("(")[0].strip() for name in header}
    if {"Kernel Start", "Kernel Dur", "API Start", "API Dur"} <= titles:
        return "launch"
    if not {"Start", "Duration", "Name"} <= titles:
        return None
    if "Strm" in titles:
        return "work"
    if "RangeId" in titles:
        return "range"
    return "call" if "Tid" in titles else None


def _work_row(builder: TimelineBuilder, row: Row, names: dict[int, str]) -> None:
    start, end = _times(row, "Start", "Duration")
    device = _device(row.get("Device", ""), names)
    name, category = _work(row)
    size = _size(row) if category != "kernel" else None
    call = integer(row.get("CorrId", row.get("CorrID")))
    stream = integer(row["Strm"])
    builder.device(start, end, builder.name(name), category, device, stream, call, size)


def _call_row(builder: TimelineBuilder, row: Row) -> None:
    start, end = _times(row, "Start", "Duration")
    name = call_name(row["Name"])
    thread = builder.thread(integer(row.get("Pid")) or 0, integer(row["Tid"]) or 0)
    call = integer(row.get("CorrID", row.get("CorrId")))
    builder.host(start, end, builder.name(name), call_category(name), thread, call)


def _range_row(builder: TimelineBuilder, row: Row) -> None:
    start, end = _times(row, "Start", "Duration")
    thread = builder.thread(integer(row.get("PID")) or 0, integer(row.get("TID")) or 0)
    # A range of the default domain is written as `:name`.
    name, category = range_category(row["Name"].removeprefix(":"))
    builder.host(start, end, builder.name(name), category, thread, None)


def _launch_row(builder: TimelineBuilder, row: Row, number: int) -> None:
    """Add a launch and its kernel; the report has no ids, but both stand in one row."""
    begin, done = _times(row, "API Start", "API Dur")
    start, end = _times(row, "Kernel Start", "Kernel Dur")
    name = call_name(row.get("API Function", ""))
    thread = builder.thread(integer(row.get("PID")) or 0, integer(row.get("TID")) or 0)
    builder.host(begin, done, builder.name(name), call_category(name), thread, number)
    kernel = builder.name(row.get("Kernel Name", "unnamed kernel"))
    builder.device(start, end, kernel, "kernel", integer(row.get("DevId")), None, number)


def _times(row: Row, start: str, duration: str) -> tuple[int | None, int | None]:
    begin, lasted = (
        scaled(*found) if (found := column(row, title)) else None for title in (start, duration)
    )
    return begin, None if begin is None or lasted is None else begin + lasted


def _device(text: str, names: dict[int, str]) -> int | None:
    found = _DEVICE.match(text.strip())
    if not found:
        return None
    number = int(found[2])
    names[number] = found[1]
    return number


def _work(row: Mapping[str, str]) -> tuple[str, str]:
    text = row["Name"]
    if text.startswith("[CUDA memset"):
        return "Memset", "gpu_memset"
    if not text.startswith("[CUDA memcpy"):
        return text, "kernel"
    found = _COPY.match(text)
    if found and found[3]:
        direction = found[3][0].upper() + "to" + found[3][-1].upper()
    else:
        sides = [_SIDES.get(side.lower()) for side in found.groups()[:2] if side] if found else []
        direction = "to".join(side for side in sides if side) if all(sides) else "Unknown"
    kinds = (row.get(side, "").strip() or None for side in ("SrcMemKd", "DstMemKd"))
    return copy_name(direction or "Unknown", *kinds), "gpu_memcpy"


def _size(row: Row) -> int | None:
    value, unit = column(row, "Bytes") or ("", "")
    try:
        size = round(float(value.replace(",", "")) * _SIZE_UNITS[unit])
    except (ValueError, KeyError):
        return None
    return size or None  # too small to show in this unit
