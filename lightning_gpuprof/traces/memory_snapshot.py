"""Reads `torch.cuda.memory._dump_snapshot` pickles without running anything in them.

A snapshot is plain data: dicts, lists, tuples, strings and numbers. A pickle that names any class
or function could run code, so it is refused.
"""

import io
import pickle
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typing_extensions import override

from lightning_gpuprof.errors import TraceError
from lightning_gpuprof.traces.sniff import Head

_KEYS = (b"segments", b"device_traces")
_ALLOCATED = "active_allocated"


@dataclass(frozen=True)
class Frame:
    """A line of an allocation's stack."""

    file: str
    line: int
    function: str


@dataclass(frozen=True)
class Block:
    """A piece of a segment."""

    num_bytes: int
    requested_bytes: int | None
    state: str
    frames: tuple[Frame, ...]
    address: int | None = None


@dataclass(frozen=True)
class Segment:
    """Memory that the allocator holds from the device."""

    device: int
    num_bytes: int
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class AllocatorEvent:
    """An entry of the allocator's history, such as `alloc`, `free_completed` or `oom`.

    `note` is the allocations' metadata that the program had set; empty without.
    """

    device: int
    action: str
    num_bytes: int
    time_us: int | None
    frames: tuple[Frame, ...]
    address: int | None = None
    note: str = ""


@dataclass(frozen=True)
class AllocatorDump:
    """The allocator's state at one moment, and its history up to then where it was recorded."""

    segments: tuple[Segment, ...]
    events: tuple[AllocatorEvent, ...]
    warnings: tuple[str, ...] = ()

    @property
    def devices(self) -> list[int]:
        """Devices with memory held or with history."""
        return sorted({s.device for s in self.segments} | {e.device for e in self.events})

    def reserved_bytes(self, device: int) -> int:
        """Bytes that the allocator holds from the device."""
        return sum(s.num_bytes for s in self.segments if s.device == device)

    def allocated_bytes(self, device: int) -> int:
        """Bytes of blocks that are in use."""
        return sum(b.num_bytes for b in self._blocks(device) if b.state == _ALLOCATED)

    def _blocks(self, device: int) -> Iterable[Block]:
        return (b for s in self.segments if s.device == device for b in s.blocks)


class _PlainUnpickler(pickle.Unpickler):
    """Builds plain data only; the opcodes that call something all go through `find_class`."""

    @override
    def find_class(self, module_name: str, global_name: str, /) -> Any:
        raise TraceError(
            f"The pickle asks for {module_name}.{global_name}, which could run code. A memory "
            "snapshot holds plain data only; record one with torch.cuda.memory._dump_snapshot."
        )

    @override
    def persistent_load(self, pid: Any) -> Any:
        raise TraceError("The pickle refers to objects outside of it; it is not a memory snapshot.")


def matches(head: Head) -> bool:
    """Tell a snapshot by a pickle's first byte and a key of the snapshot."""
    return head.data.startswith(b"\x80") and any(key in head.data[:4096] for key in _KEYS)


def read_snapshot(path: str) -> AllocatorDump:
    """Read a snapshot."""
    try:
        content = _PlainUnpickler(io.BytesIO(Path(path).read_bytes())).load()
    except (pickle.UnpicklingError, EOFError, ValueError, IndexError, KeyError) as error:
        raise TraceError(
            f"{path} is a damaged pickle or one that ends early ({error}). Record it again."
        ) from error
    if not isinstance(content, dict) or not {"segments", "device_traces"} & content.keys():
        raise TraceError(f"{path} is a pickle, but not a memory snapshot: it has no segments.")
    segments = tuple(_segment(entry) for entry in content.get("segments", ()))
    events = tuple(
        _event(device, entry)
        for device, trace in enumerate(content.get("device_traces", ()))
        for entry in trace
    )
    warnings = []
    if not events:
        warnings.append(
            "No history was recorded: call torch.cuda.memory._record_memory_history() first."
        )
    return AllocatorDump(segments, events, tuple(warnings))


def user_frame(frames: tuple[Frame, ...]) -> Frame | None:
    """Return the innermost Python frame outside torch; failing that, the innermost Python frame."""
    python = [frame for frame in frames if frame.file.endswith(".py")]
    own = (f for f in python if "/torch/" not in f.file and "site-packages" not in f.file)
    return next(own, python[0] if python else None)


def _segment(entry: Mapping[str, Any]) -> Segment:
    return Segment(
        device=entry.get("device", 0),
        num_bytes=entry["total_size"],
        blocks=tuple(_block(block) for block in entry.get("blocks", ())),
    )


def _block(entry: Mapping[str, Any]) -> Block:
    return Block(
        num_bytes=entry["size"],
        requested_bytes=entry.get("requested_size"),
        state=entry.get("state", ""),
        frames=_frames(entry.get("frames", ())),
        address=entry.get("address"),
    )


def _event(device: int, entry: Mapping[str, Any]) -> AllocatorEvent:
    return AllocatorEvent(
        device=device,
        action=entry.get("action", ""),
        num_bytes=entry.get("size", 0),
        time_us=entry.get("time_us"),
        frames=_frames(entry.get("frames", ())),
        address=entry.get("addr"),
        note=entry.get("user_metadata") or "",
    )


def _frames(entries: Iterable[Mapping[str, Any]]) -> tuple[Frame, ...]:
    return tuple(Frame(e.get("filename", ""), e.get("line", 0), e.get("name", "")) for e in entries)
