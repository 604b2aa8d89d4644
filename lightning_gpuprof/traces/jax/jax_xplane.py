"""Reads `xplane.pb`, which JAX's and TensorFlow's profilers write.

A plane is a device or the host; its lines are streams or threads. Times are ps from a line's own
start; they are rounded to ns. A GPU's work is on lines with names such as `Stream #16(Kernel)`, a
TPU's on `XLA Ops`. Lines that the profiler derives from those (`XLA Modules`, `Steps`, ...) are
ranges, not work. Python calls are read only where stacks are asked for.
"""

import re
from collections.abc import Mapping
from typing import Any

from lightning_gpuprof.errors import TraceError
from lightning_gpuprof.traces.builder import TimelineBuilder, copy_name
from lightning_gpuprof.traces.files import read_file
from lightning_gpuprof.traces.jax.messages import DamagedMessageError, read_message
from lightning_gpuprof.traces.sniff import Head, ReadOptions
from lightning_gpuprof.traces.timeline import DeviceInfo, Timeline

DEVICE = re.compile(r"/device:(GPU|TPU):(\d+)")
STREAM = re.compile(r"Stream #(\d+)")
_COPY = re.compile(r"Memcpy(H2D|D2H|D2D|P2P)")
DETAIL = re.compile(r"(\w+):(\w+)")
OPERATIONS = "XLA Ops"
"""The line with the work of a device that has no streams."""
_RUNTIME = re.compile(r"(cuda|hip|hsa_)[A-Za-z_]")
_DRIVER = re.compile(r"cu[A-Z]")
_MARKS = (b"/host:", b"/device:", b"Task Environment")
SPACE = """
XSpace: planes 1 XPlane*, errors 2 text*
XPlane: name 2 text, lines 3 XLine*, event_metadata 4 EventEntry*, stat_metadata 5 StatEntry*, \
stats 6 XStat*
XLine: id 1 int, name 2 text, timestamp_ns 3 int, events 4 XEvent*, display_name 11 text
XEvent: metadata_id 1 int, offset_ps 2 int, duration_ps 3 int, stats 4 XStat*
XStat: metadata_id 1 int, double_value 2 double, uint64_value 3 uint, int64_value 4 int, \
str_value 5 text, ref_value 7 uint
XEventMetadata: id 1 int, name 2 text, display_name 4 text
XStatMetadata: id 1 int, name 2 text
EventEntry: key 1 int, value 2 XEventMetadata
StatEntry: key 1 int, value 2 XStatMetadata
"""
"""The messages of a file that are read, see `message_class`."""


def matches(head: Head) -> bool:
    """Return whether a file begins with a plane that has a name of these profilers."""
    start = head.data[:128]
    return start.startswith(b"\n") and any(mark in start for mark in _MARKS)


def read(path: str, options: ReadOptions) -> Timeline:
    """Read the kernels and copies of every device, and the host's calls and ranges."""
    builder = TimelineBuilder("jax-xplane")
    content = read_file(path, builder.warnings)
    try:
        space = read_message(SPACE, content)
    except DamagedMessageError as error:
        raise TraceError(f"{path} is damaged or ends early ({error}). Record it again.") from error
    builder.warnings.extend(text.decode("utf-8", "replace") for text in space.errors)
    devices = []
    for plane in space.planes:
        names = _Names(plane)
        if device := DEVICE.search(_text(plane.name)):
            devices.append(_device_info(plane, names, int(device[2])))
            is_known = _device_plane(builder, plane, names, int(device[2]))
        elif is_known := _text(plane.name).startswith("/host:"):
            _host_plane(builder, plane, names, options)
        events = sum(len(line.events) for line in plane.lines)
        if not is_known and events and _text(plane.name).startswith("/device:"):
            name = _text(plane.name)
            builder.warnings.append(
                f"Plane {name} is not known here: {events} events of a device are left out."
            )
    return builder.build(devices=devices)


class _Names:
    """A plane's tables of event and statistic names."""

    def __init__(self, plane: Any) -> None:
        self.events = {
            entry.key: _text(entry.value.display_name or entry.value.name)
            for entry in plane.event_metadata
        }
        self.stats = {entry.key: _text(entry.value.name) for entry in plane.stat_metadata}

    def of(self, event: Any) -> str:
        return self.events.get(event.metadata_id) or f"event {event.metadata_id}"

    def values(self, holder: Any) -> dict[str, Any]:
        """Return the statistics of an event or a plane by name."""
        values = {}
        for stat in holder.stats:
            for field, value in stat.ListFields():
                if field.name == "ref_value":
                    value = self.stats.get(value, "")
                if field.name != "metadata_id":
                    text = _text(value) if field.name == "str_value" else value
                    values[self.stats.get(stat.metadata_id, "")] = text
        return values


def _device_plane(builder: TimelineBuilder, plane: Any, names: _Names, device: int) -> bool:
    """Read a device's streams, or else its operations; return whether it has any."""
    lines = [(line, STREAM.match(_text(line.name))) for line in plane.lines]
    streams = [pair for pair in lines if pair[1]]
    working = streams or [pair for pair in lines if _text(pair[0].name) == OPERATIONS]
    for line, stream in working:
        number = int(stream[1]) if stream else line.id
        for event in line.events:
            values = names.values(event)
            details = dict(DETAIL.findall(str(values.get("memcpy_details", ""))))
            size = int(details["size"]) if details.get("size") else None
            where = (device, number, values.get("correlation_id"), size)
            builder.device(*_times(line, event), *device_work(names.of(event), details), *where)
    return bool(working)


def device_work(name: str, details: Mapping[str, str]) -> tuple[str, str]:
    """Return the name and category of a stream's event, with the known details of a copy.

    >>> device_work("MemcpyH2D", {"kind_src": "pinned", "kind_dst": "device"})
    ('Memcpy HtoD (Pinned -> Device)', 'gpu_memcpy')
    """
    if copy := _COPY.match(name):
        kinds = (details.get(key, "").capitalize() for key in ("kind_src", "kind_dst"))
        return copy_name(copy[1].replace("2", "to"), *kinds), "gpu_memcpy"
    return name, "gpu_memset" if name.startswith("Memset") else "kernel"


def host_category(name: str) -> str:
    """Return the category of a host event by its name."""
    if _RUNTIME.match(name):
        return "cuda_runtime"
    if _DRIVER.match(name):
        return "cuda_driver"
    return "python_function" if name.startswith("$") else "cpu_op"


def _host_plane(builder: TimelineBuilder, plane: Any, names: _Names, options: ReadOptions) -> None:
    for line in plane.lines:
        thread = builder.thread(_text(plane.name), line.id, _text(line.display_name or line.name))
        for event in line.events:
            text = names.of(event)
            category = host_category(text)
            if category == "python_function" and not options.stacks:
                continue
            values = names.values(event)
            if "step_num" in values:
                text, category = f"{text}#{values['step_num']}", "user_annotation"
            where = (thread, values.get("correlation_id"))
            builder.host(*_times(line, event), text, category, *where)


def _device_info(plane: Any, names: _Names, number: int) -> DeviceInfo:
    values = names.values(plane)
    known = {"totalGlobalMem": values.get("memory_size"), "numSms": values.get("core_count")}
    properties = {key: value for key, value in known.items() if value is not None}
    vendor = str(values.get("device_vendor", "")).lower() or None
    return DeviceInfo(number, values.get("device_name"), vendor, properties)


def _times(line: Any, event: Any) -> tuple[int, int]:
    start = line.timestamp_ns + (event.offset_ps + 500) // 1000
    return start, start + (event.duration_ps + 500) // 1000


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
