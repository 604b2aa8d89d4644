"""Reads the collectives of one rank from a Kineto trace, and which rank of which job it is.

Kineto describes a collective of NCCL or RCCL at its kernel: kind, process group, elements and type
(torch 2.3 and later; in older files the kernel's name alone tells its kind). Gloo's have a range on
a thread of their own that gives the kind.
"""

import re
from dataclasses import dataclass

import msgspec
import numpy as np

from lightning_gpuprof.arrays import Int64
from lightning_gpuprof.traces.files import read_blocks
from lightning_gpuprof.traces.kineto.event_stream import EventStream
from lightning_gpuprof.traces.kineto.events import EventKind, Kind, Loose, Number, exact_ns
from lightning_gpuprof.traces.sniff import read_head
from lightning_gpuprof.traces.timeline import MISSING

_JOB = re.compile(rb'"distributedInfo"\s*:\s*')
_KERNEL = re.compile(r"(?:nccl|rccl|msccl)\w*?(?:Dev)?Kernel_?([A-Za-z]+)")
_RANGE = re.compile(r"(?:gloo|mpi|ucc|xccl|hccl):([\w ]+)")
_BYTES = {
    **dict.fromkeys(("Byte", "Char", "Bool", "Float8_e4m3fn", "Float8_e5m2"), 1),
    **dict.fromkeys(("Half", "BFloat16", "Short"), 2),
    **dict.fromkeys(("Float", "Int", "UInt32"), 4),
    **dict.fromkeys(("Double", "Long", "UInt64", "ComplexFloat"), 8),
    "ComplexDouble": 16,
}
"""Bytes per element by the type's name in the file."""
_KINDS = (
    ("reducescatter", "reduce_scatter"),
    ("allreduce", "all_reduce"),
    ("allgather", "all_gather"),
    ("alltoall", "all_to_all"),
    ("broadcast", "broadcast"),
    ("barrier", "barrier"),
    ("sendrecv", "send_recv"),
    ("send", "send_recv"),
    ("recv", "send_recv"),
    ("reduce", "reduce"),
    ("gather", "gather"),
    ("scatter", "scatter"),
)
NOT_RECORDED = "not recorded"


@dataclass(frozen=True)
class JobRank:
    """Which rank of how many wrote a trace, as the file's `distributedInfo` says."""

    rank: int
    world_size: int


@dataclass(frozen=True)
class Collective:
    """What the collectives of one kind, size and process group have in common.

    Args:
        kind: `all_reduce`, `all_gather`, ...; as in the file where it is another.
        group: The process group's name and ranks, or `NOT_RECORDED`.
        group_size: The ranks in the group; None if not recorded.
        num_bytes: The bytes of the whole tensor that is reduced, gathered or scattered; None if
            not recorded.
    """

    kind: str
    group: str = NOT_RECORDED
    group_size: int | None = None
    num_bytes: int | None = None


@dataclass(frozen=True)
class CollectiveEvents:
    """The collectives of one rank in order of time, on the file's clock.

    Args:
        kinds: What is said of them.
        kind: Index into `kinds`, one per collective.
        start_ns, dur_ns: When, and for how long; it includes the wait for other ranks.
        correlation: That of the kernel; -1 for a range on the host.
        sequence: The number in its process group, `Seq` in the file; -1 if not recorded.
        on_device: Whether these are kernels, rather than ranges on the host.
    """

    kinds: tuple[Collective, ...]
    kind: Int64
    start_ns: Int64
    dur_ns: Int64
    correlation: Int64
    sequence: Int64
    on_device: bool


def job_rank(path: str) -> JobRank | None:
    """Return the rank that wrote a trace; None for a file that does not say so.

    Raises:
        TraceError: The file cannot be read.
    """
    head = read_head(path).data
    match = _JOB.search(head)
    if match is None:
        return None
    text = head[match.end() :]
    try:
        # The groups of thousands of ranks are longer than the head; they come after these numbers.
        info = msgspec.json.decode(_object(text) or _before_groups(text))
        rank, world = int(info["rank"]), int(info["world_size"])
    except (msgspec.DecodeError, KeyError, TypeError, ValueError):
        return None
    if not 0 <= rank < world:
        return None
    return JobRank(rank, world)


def _object(text: bytes) -> bytes:
    """Return the JSON object that a text begins with."""
    depth, quoted, escaped = 0, False, False
    for at, byte in enumerate(text):
        if quoted:
            quoted, escaped = escaped or byte != ord('"'), not escaped and byte == ord("\\")
        elif byte == ord('"'):
            quoted = True
        elif byte in b"{[":
            depth += 1
        elif byte in b"}]":
            depth -= 1
            if not depth:
                return text[: at + 1]
    return b""


def _before_groups(text: bytes) -> bytes:
    """Return an object with what comes before the process groups."""
    return text.partition(b'"pg_config"')[0].rstrip().rstrip(b",") + b"}"


class _Args(msgspec.Struct, gc=False):
    correlation: Loose = MISSING
    name: Loose = msgspec.field(default=None, name="Collective name")
    elements: Loose = msgspec.field(default=None, name="In msg nelems")
    out_elements: Loose = msgspec.field(default=None, name="Out msg nelems")
    dtype: Loose = None
    sequence: Loose = msgspec.field(default=None, name="Seq")
    group: Loose = msgspec.field(default=None, name="Process Group Name")
    ranks: Loose = msgspec.field(default=None, name="Process Group Ranks")
    group_size: Loose = msgspec.field(default=None, name="Group size")


class _Event(msgspec.Struct, gc=False):
    ph: EventKind = EventKind.OTHER
    cat: Kind | None = None
    name: str = ""
    ts: Number = 0
    dur: Number | None = None
    args: _Args | None = None


def read_collectives(path: str) -> CollectiveEvents:
    """Read the collectives of a trace: kernels where there are any, ranges on the host otherwise.

    Args:
        path: A trace as torch.profiler exported it.

    Raises:
        TraceError: The file is damaged before its first event.
    """
    decoder = msgspec.json.Decoder(list[_Event], strict=False)
    single = msgspec.json.Decoder(_Event, strict=False)

    def one_event(text: bytes) -> _Event | None:
        try:
            return single.decode(text)
        except msgspec.MsgspecError:
            return None

    kernels: list[_Event] = []
    ranges: list[_Event] = []
    ignore = lambda _: None  # noqa: E731 - the timeline's reader gives the same warnings
    for events in EventStream(read_blocks(path, []), decoder.decode, one_event, ignore):
        kernels += [e for e in events if e.cat is Kind.KERNEL and _kernel_kind(e)]
        ranges += [e for e in events if e.cat is Kind.USER_ANNOTATION and _RANGE.match(e.name)]
    collectives = sorted(kernels or ranges, key=lambda event: event.ts)
    index: dict[Collective, int] = {}
    kinds = [index.setdefault(_collective(event), len(index)) for event in collectives]
    correlations = [event.args.correlation if event.args else MISSING for event in collectives]
    return CollectiveEvents(
        kinds=tuple(index),
        kind=np.array(kinds, dtype=np.int64),
        start_ns=np.array([_ns(event.ts) for event in collectives], dtype=np.int64),
        dur_ns=np.array([max(0, _ns(event.dur or 0)) for event in collectives], dtype=np.int64),
        correlation=np.array(
            [value if isinstance(value, int) else MISSING for value in correlations],
            dtype=np.int64,
        ),
        sequence=np.array([_sequence(event) for event in collectives], dtype=np.int64),
        on_device=bool(kernels),
    )


def _sequence(event: _Event) -> int:
    number = event.args.sequence if event.args else None
    return number if isinstance(number, int) and 0 <= number < 1 << 62 else MISSING


def _ns(microseconds: Number) -> int:
    return exact_ns(repr(microseconds).encode())


def _kernel_kind(event: _Event) -> str | None:
    if event.args is not None and isinstance(event.args.name, str):
        return event.args.name
    match = _KERNEL.match(event.name)
    return match[1] if match else None


def kind_of(name: str) -> str:
    """Return the kind of a collective, as torch names its functions.

    >>> kind_of("_allgather_base"), kind_of("ReduceScatter"), kind_of("all_to_allv")
    ('all_gather', 'reduce_scatter', 'all_to_all')
    """
    letters = re.sub(r"[^a-z]", "", name.lower())
    return next((kind for part, kind in _KINDS if part in letters), name)


def _collective(event: _Event) -> Collective:
    args = event.args
    if event.cat is Kind.USER_ANNOTATION:
        match = _RANGE.match(event.name)
        return Collective(kind_of(match[1] if match else event.name))
    kind = kind_of(_kernel_kind(event) or event.name)
    if args is None or args.group is None:
        return Collective(kind)
    counts = [args.elements, args.out_elements]
    elements = [count for count in counts if isinstance(count, int) and count >= 0]
    size = _BYTES.get(str(args.dtype))
    return Collective(
        kind=kind,
        group=f"{args.group} {args.ranks}" if args.ranks else str(args.group),
        group_size=args.group_size if isinstance(args.group_size, int) else None,
        num_bytes=max(elements) * size if elements and size else None,
    )
