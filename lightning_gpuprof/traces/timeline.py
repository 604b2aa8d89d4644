"""What every trace reader returns: one Timeline of event tables.

Names are stored once in `Timeline.names` and referred to by index. Times are relative to
`Timeline.origin_ns`, so that they fit a float and a browser.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lightning_gpuprof.traces.event_tables import (
    CATEGORIES,
    CATEGORY_ID,
    MISSING,
    DeviceEvents,
    Flows,
    HostEvents,
    MemoryEvents,
    SyncEvents,
    Table,
    column_dtype,
    fits_int32,
    make_table,
    of_category,
    select,
    start_order,
)

__all__ = [
    "CATEGORIES",
    "CATEGORY_ID",
    "MISSING",
    "DeviceEvents",
    "DeviceInfo",
    "Flows",
    "HostEvents",
    "MemoryEvents",
    "OpArguments",
    "SyncEvents",
    "Table",
    "Thread",
    "Timeline",
    "column_dtype",
    "fits_int32",
    "make_table",
    "of_category",
    "select",
    "start_order",
]


@dataclass(frozen=True)
class Thread:
    """A host thread as the file names it."""

    pid: int | str
    tid: int | str
    name: str | None = None


@dataclass(frozen=True)
class OpArguments:
    """What an operator was called with, as recorded with `record_shapes`.

    Args:
        dims: One shape per input; a tensor list has a list of shapes, a scalar has `[]`.
        dtypes: One type name per input, as written in the file (`c10::BFloat16`, `float`).
        strides: One stride list per input, where recorded.
        values: Scalars' values as text, empty for tensors, where recorded.
    """

    dims: tuple[object, ...] = ()
    dtypes: tuple[str, ...] = ()
    strides: tuple[object, ...] = ()
    values: tuple[str, ...] = ()


@dataclass(frozen=True)
class DeviceInfo:
    """A device as the file describes it; `properties` holds the file's own keys.

    `vendor` is in lower case: amd, nvidia.
    """

    id: int
    name: str | None
    vendor: str | None = None
    properties: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Timeline:
    """A trace from any source.

    Args:
        source: Reader's name in `SOURCES`: `kineto`, `rocprof`, `nsys`, ...
        origin_ns: What times are relative to, on the file's own clock.
        names: Every name once.
        host: Events on host threads.
        device: Kernels, copies and fills; not the ranges that are shown above them.
        syncs: Kineto's `cuda_sync` rows.
        memory: Allocator marks.
        flows: Arrows between host events.
        threads: Host threads.
        arguments: Distinct operator arguments; decoded when indexed.
        devices: Devices that the file describes or that have events, by id.
        distributed: Rank, world size and process groups, where recorded.
        metadata: The file's other top-level values.
        warnings: What is missing or was skipped, in sentences.
    """

    source: str
    origin_ns: int
    names: Sequence[str]
    host: HostEvents
    device: DeviceEvents
    syncs: SyncEvents = field(default_factory=lambda: make_table(SyncEvents))
    memory: MemoryEvents = field(default_factory=lambda: make_table(MemoryEvents))
    flows: Flows = field(default_factory=lambda: make_table(Flows))
    threads: Sequence[Thread] = ()
    arguments: Sequence[OpArguments] = ()
    devices: Sequence[DeviceInfo] = ()
    distributed: Mapping[str, object] | None = None
    metadata: Mapping[str, object] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
