"""Reads pickled snapshots of torch's CUDA allocator without running anything in them.

`torch.cuda.memory._dump_snapshot` writes the allocator's segments with its history, and a pickled
`torch.cuda.memory_snapshot()` is the list of segments alone. Either is plain data: dicts, lists,
tuples, strings and numbers. A pickle that names any class or function could run code, so it is
refused. Its opcodes are checked before it is unpickled, because a few bytes of them could ask for
all of a machine's memory.
"""

import io
import pickle
import re
from dataclasses import dataclass
from typing import Annotated, Any

from msgspec import Meta, Struct, field
from typing_extensions import override

from lightning_gpuprof.errors import TraceError, UnreadableError
from lightning_gpuprof.records.decode import typed
from lightning_gpuprof.records.files import LOCAL
from lightning_gpuprof.traces.sniff import Head

_KEYS = (b"segments", b"device_traces")
_SEGMENT_KEYS = (b"total_size", b"segment_type")
"""Keys of a segment, with which a bare list of segments begins."""
_NO_HISTORY = "No history was recorded: call torch.cuda.memory._record_memory_history() first."
_SEGMENTS_ALONE = (
    "torch.cuda.memory_snapshot() holds no history: call "
    "torch.cuda.memory._record_memory_history() first, and write the file with "
    "torch.cuda.memory._dump_snapshot()."
)
_MOST_BYTES, _MOST_DEVICES = 1 << 31, 128
_ENTRIES, _ENTRIES_PER_BYTE = 100_000, 8
"""The most blocks, events and stack lines, in all and per byte: a pickle can repeat its objects."""
_Int = Annotated[int, Meta(ge=-(1 << 62), le=1 << 62)]
_Size = Annotated[int, Meta(ge=0, le=1 << 62)]


class Frame(Struct, frozen=True, gc=False):
    """A line of an allocation's stack."""

    file: str = field(default="", name="filename")
    line: _Int = 0
    function: str = field(default="", name="name")


class Block(Struct, frozen=True):
    """A piece of a segment."""

    num_bytes: _Size = field(name="size")
    requested_bytes: _Size | None = field(default=None, name="requested_size")
    state: str = ""
    frames: tuple[Frame, ...] = ()
    address: _Int | None = None


class Segment(Struct, frozen=True):
    """A piece of the device's memory that the allocator holds."""

    num_bytes: _Size = field(name="total_size")
    device: _Int = 0
    blocks: tuple[Block, ...] = ()


class AllocatorEvent(Struct):
    """An entry of the allocator's history, such as `alloc`, `free_completed` or `oom`.

    `note` is the metadata that the program had set for its allocations; empty if it set none.
    """

    device: int = field(default=0, name="")  # set by position; not a key of the file
    action: str = ""
    num_bytes: _Size = field(default=0, name="size")
    time_us: _Int | None = None
    frames: tuple[Frame, ...] = ()
    address: _Int | None = field(default=None, name="addr")
    note: str | None = field(default="", name="user_metadata")


class _Content(Struct):
    segments: tuple[Segment, ...] = ()
    device_traces: tuple[tuple[AllocatorEvent, ...], ...] = ()


@dataclass(frozen=True)
class AllocatorDump:
    """The allocator's state at one moment, and its history up to then where it was recorded."""

    segments: tuple[Segment, ...]
    events: tuple[AllocatorEvent, ...]
    warnings: tuple[str, ...] = ()

    @property
    def devices(self) -> list[int]:
        """Devices of which the dump holds memory or history."""
        return sorted({s.device for s in self.segments} | {e.device for e in self.events})

    def reserved_bytes(self, device: int) -> int:
        """Bytes that the allocator holds from the device."""
        return sum(s.num_bytes for s in self.segments if s.device == device)


class _PlainUnpickler(pickle.Unpickler):
    """Builds plain data only; the opcodes that call something all go through `find_class`."""

    @override
    def find_class(self, module_name: str, global_name: str, /) -> Any:
        raise TraceError(
            f"The pickle asks for {module_name}.{global_name}, which could run code. A memory "
            "snapshot holds plain data only; record one with torch.cuda.memory._dump_snapshot."
        )


def matches(head: Head) -> bool:
    """Return whether a file is a pickle with the keys of a snapshot, or of a list of segments."""
    start = head.data[:4096]
    named = any(key in start for key in _KEYS) or all(key in start for key in _SEGMENT_KEYS)
    return start.startswith(b"\x80") and named


def read_snapshot(path: str) -> AllocatorDump:
    """Read a snapshot."""
    data = LOCAL.read_bytes(path, _MOST_BYTES)
    try:
        _check_opcodes(data)
        content = _PlainUnpickler(io.BytesIO(data)).load()
        bare = isinstance(content, list)
        if bare:
            content = {"segments": content}
        if not isinstance(content, dict) or not {"segments", "device_traces"} & content.keys():
            raise TraceError(f"{path} is a pickle, but not a memory snapshot: it has no segments.")
        _check_entries(content, _ENTRIES + _ENTRIES_PER_BYTE * len(data))
        plain = typed(content, _Content)
    except (pickle.UnpicklingError, AttributeError, EOFError, LookupError) as error:
        raise TraceError(f"{path} is damaged or ends early ({error}). Record it again.") from error
    except (ArithmeticError, RecursionError, TypeError, ValueError) as error:
        raise TraceError(f"{path} is no memory snapshot: {error}. Record it again.") from error
    for device, trace in enumerate(plain.device_traces):
        for event in trace:
            event.device = device
    events = tuple(event for trace in plain.device_traces for event in trace)
    no_history = _SEGMENTS_ALONE if bare else _NO_HISTORY
    return AllocatorDump(plain.segments, events, () if events else (no_history,))


_PLAIN = re.compile(
    rb"(?:[(0-2Nadelstu\])}\x85-\x89\x8f-\x91\x94]|[Khq\x80].|M..|[Jj].{4}|[G\x95].{8}){1,999}",
    re.DOTALL,
)
"""Opcodes of plain data with arguments of a fixed length."""
_LENGTHS = {b"U": 1, b"C": 1, b"\x8a": 1, b"\x8c": 1, b"B": 4, b"T": 4, b"X": 4, b"\x8d": 8}
"""Opcodes of strings, bytes and long numbers, with the size of the length that follows them."""


def _check_opcodes(data: bytes) -> None:
    """Refuse opcodes that no snapshot needs, broken text, and memo indexes that are too large.

    The unpickler's memo is a list: an index makes it allocate room for all indexes below.
    """
    at = 0
    while data[at : at + 1] not in (b".", b""):
        code, end = data[at : at + 1], at + 5
        if match := _PLAIN.match(data, at):
            end = match.end()
        elif width := _LENGTHS.get(code):
            start = at + 1 + width
            end = start + int.from_bytes(data[at + 1 : start], "little")
            if end > len(data):
                raise UnreadableError("it ends early")
            if code in b"\x8cX\x8d":
                data[start:end].decode()  # the unpickler lets surrogates pass
        elif code != b"r":
            raise UnreadableError(f"opcode {code!r} is not one of plain data, and could run code")
        elif (index := int.from_bytes(data[at + 1 : end], "little")) > at:
            raise UnreadableError(f"at byte {at} it asks for {index:,} memo entries")
        at = end


def _check_entries(content: dict[Any, Any], most: int) -> None:
    """Refuse a pickle that holds, by repetition, more entries than a file of its size can."""
    traces, segments = content.get("device_traces", ()), content.get("segments", ())
    count = 0
    if len(traces) > _MOST_DEVICES:
        raise UnreadableError(f"it is of more than {_MOST_DEVICES} devices")
    for group in (*traces, *(segment["blocks"] for segment in segments)):
        for entry in group:
            count += 1 + len(entry.get("frames", ()))
            if count > most:
                raise UnreadableError(
                    f"more than {most:,} blocks, events and lines, or 128 devices"
                )


def user_frame(frames: tuple[Frame, ...]) -> Frame | None:
    """Return the innermost Python frame outside torch; failing that, the innermost Python frame."""
    python = [frame for frame in frames if frame.file.endswith(".py")]
    own = (f for f in python if "/torch/" not in f.file and "site-packages" not in f.file)
    return next(own, python[0] if python else None)
