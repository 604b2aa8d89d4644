"""Reads the timelines that `nsys stats --format csv` prints: `cuda_gpu_trace`, `cuda_api_trace`.

One row per event, columns headed with their unit (`Start (ns)`; us and ms where `--timeunit` says
so), after lines of progress. A device's row names it as `NVIDIA A100 (0)`, a copy is
`[CUDA memcpy Host-to-Device]`, `[CUDA memcpy HtoD]` in older versions. Bytes are given in MB with
three decimals, so sizes are exact to 500 bytes. Written from the published headers; no file that
nsys wrote was at hand. The SQLite export holds more: syncs, ranges and exact sizes.
"""

import csv
import io
import re
from collections.abc import Mapping

from lightning_gpuprof.traces.builder import TimelineBuilder, copy_name
from lightning_gpuprof.traces.files import integer, parse_csv, read_file, scaled
from lightning_gpuprof.traces.nsys import call_category, call_name
from lightning_gpuprof.traces.options import ReadOptions
from lightning_gpuprof.traces.sniff import Head
from lightning_gpuprof.traces.timeline import DeviceInfo, Timeline

_HEADER = re.compile(r'^"?Start \((ns|us|ms|s)\)"?,"?Duration \(', re.MULTILINE)
_DEVICE = re.compile(r"(.*) \((\d+)\)$")
_COPY = re.compile(
    r"\[CUDA memcpy (\w+)[- ]to[- ](\w+)|\[CUDA memcpy ([HDP]to[HDP])", re.IGNORECASE
)
_SIDES = {"host": "H", "device": "D", "peer": "P"}
_SIZE = "Bytes ("
_SIZE_UNITS = {"byte": 1, "B": 1, "KB": 1_000, "MB": 1_000_000, "GB": 1_000_000_000}


def matches(head: Head) -> bool:
    """Tell either report by its header, wherever it begins."""
    header = _header(head.data.decode("utf-8", "replace"))
    return bool(header) and ("Name" in header and bool({"Strm", "Tid"} & set(header)))


def read(path: str, options: ReadOptions) -> Timeline:
    """Read one report: device events or API calls."""
    builder = TimelineBuilder("nsys-trace-csv")
    text = read_file(path, builder.warnings).decode("utf-8-sig", "replace")
    found = _HEADER.search(text)
    body = text[found.start() :] if found else ""
    names: dict[int, str] = {}
    for row in parse_csv(body, builder.warnings):
        start, lasted = _column(row, "Start ("), _column(row, "Duration (")
        end = None if start is None or lasted is None else start + lasted
        call = integer(row.get("CorrId", row.get("CorrID")))
        if "Tid" in row:
            name = call_name(row["Name"])
            thread = builder.thread(integer(row.get("Pid")) or 0, integer(row["Tid"]) or 0)
            builder.host(start, end, builder.name(name), call_category(name), thread, call)
            continue
        device = _device(row.get("Device", ""), names)
        name, category = _work(row)
        size = _size(row) if category != "kernel" else None
        stream = integer(row["Strm"])
        builder.device(start, end, builder.name(name), category, device, stream, call, size)
    devices = [DeviceInfo(number, name, "NVIDIA") for number, name in sorted(names.items())]
    return builder.build(devices=devices)


def _header(text: str) -> list[str]:
    found = _HEADER.search(text)
    return next(csv.reader(io.StringIO(text[found.start() :])), []) if found else []


def _column(row: Mapping[str, str], prefix: str) -> int | None:
    """Return a time in ns from the column of this name, whatever its unit."""
    for name, value in row.items():
        if name.startswith(prefix):
            return scaled(value, name[len(prefix) :].rstrip(")"))
    return None


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


def _size(row: Mapping[str, str]) -> int | None:
    for name, value in row.items():
        if name.startswith(_SIZE):
            unit = _SIZE_UNITS.get(name[len(_SIZE) :].rstrip(")"))
            try:
                size = round(float(value.replace(",", "")) * unit) if unit else 0
            except ValueError:
                return None
            return size or None  # too small to show in this unit
    return None
