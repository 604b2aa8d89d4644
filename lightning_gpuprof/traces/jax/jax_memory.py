"""Reads what `jax.profiler.save_device_memory_profile` writes: a pprof file, gzipped.

Each sample is the memory of one stack: bytes and allocations, with the labels `kind` (buffer,
executable) and `device`. A stack begins with its innermost call; the first frame outside JAX counts
as the line that allocated.
"""

import re
from collections import Counter
from typing import Any

from lightning_gpuprof.errors import TraceError
from lightning_gpuprof.traces.files import read_file
from lightning_gpuprof.traces.jax.messages import DamagedMessageError, read_message
from lightning_gpuprof.traces.sniff import Head

_BEGIN = re.compile(rb"\n\x04\x08.\x10.\n\x04\x08.\x10.\x12")
"""The start of a file: two types of values, then a sample."""
_JAX = re.compile(r"[/\\](jax|jaxlib)[/\\]|[/\\]contextlib\.py$")
_PROFILE = """
Profile: sample_type 1 ValueType*, sample 2 Sample*, location 4 Location*, function 5 Function*, \
string_table 6 text*
ValueType: type 1 int, unit 2 int
Sample: location_id 1 uint*, value 2 int*, label 3 Label*
Label: key 1 int, str 2 int
Location: id 1 uint, line 4 Line*
Line: function_id 1 uint, line 2 int
Function: id 1 uint, name 2 int, filename 4 int
"""

CodeLine = tuple[str, int, str]
"""File, line and function."""


def matches(head: Head) -> bool:
    """Return whether a file begins with the two types of its values."""
    return _BEGIN.match(head.data) is not None


def read_memory(path: str, warnings: list[str]) -> dict[str, "DeviceMemory"]:
    """Return the memory of each device, by its name.

    Raises:
        TraceError: The file is damaged.
    """
    content = read_file(path, warnings)
    try:
        return _devices(read_message(_PROFILE, content))
    except (DamagedMessageError, IndexError) as error:
        raise TraceError(f"{path} is damaged or ends early ({error}). Save it again.") from error


class DeviceMemory:
    """Bytes and allocations by line, and bytes by kind."""

    def __init__(self) -> None:
        self.site_bytes = Counter[CodeLine | None]()
        self.site_count = Counter[CodeLine | None]()
        self.kind_bytes = Counter[str]()


def _devices(profile: Any) -> dict[str, DeviceMemory]:
    texts = [text.decode("utf-8", "replace") for text in profile.string_table]
    functions = {
        function.id: (texts[function.name], texts[function.filename])
        for function in profile.function
    }
    lines = {location.id: _line(location, functions) for location in profile.location}
    devices: dict[str, DeviceMemory] = {}
    for sample in profile.sample:
        if len(sample.value) < 2:
            continue
        count, size = sample.value[:2]
        labels = {texts[label.key]: texts[label.str] for label in sample.label}
        device = devices.setdefault(labels.get("device", "all"), DeviceMemory())
        site = _site([lines.get(location) for location in sample.location_id])
        device.site_bytes[site] += size
        device.site_count[site] += count
        device.kind_bytes[labels.get("kind", "unknown")] += size
    return devices


def _line(location: Any, functions: dict[int, tuple[str, str]]) -> CodeLine | None:
    if not location.line:
        return None
    line = location.line[0]
    name, file = functions.get(line.function_id, ("", ""))
    return (file, line.line, name) if file else None


def _site(stack: list[CodeLine | None]) -> CodeLine | None:
    """Return the innermost line outside JAX, or else the innermost line."""
    known = [line for line in stack if line is not None]
    outside = (line for line in known if not _JAX.search(line[0]))
    return next(outside, known[0] if known else None)
