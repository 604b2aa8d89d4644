"""The Timeline that every trace reader returns: tables of events in integer nanoseconds.

A table is a frozen dataclass whose fields are numpy columns of one length: row `i` is one event.
Where something was not recorded an index or id column holds -1 (`MISSING`), never 0. Rows are
sorted by start, then longest first, so that a parent comes before its children. Names are stored
once in `Timeline.names`; times are relative to `Timeline.origin_ns`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

import numpy as np

from lightning_gpuprof.arrays import AnyArray, Float32, Int8, Int32, Int64, Mask

MISSING = -1
"""In an id or index column: the file does not record this."""

CATEGORIES = (
    "cpu_op",
    "user_annotation",
    "cuda_runtime",
    "cuda_driver",
    "python_function",
    "kernel",
    "gpu_memcpy",
    "gpu_memset",
    "cuda_sync",
    "overhead",
    "other",
)
"""Kineto's own names; readers of other sources and of older files map theirs onto these.

As in Kineto, `cuda_runtime` and `cuda_driver` hold HIP's calls too.
"""
CATEGORY_ID = {name: index for index, name in enumerate(CATEGORIES)}


@dataclass(frozen=True, kw_only=True)
class Table:
    """Arrays of one length, one row per event, sorted by start and then longest first."""

    start_ns: Int64
    dur_ns: Int64

    def __len__(self) -> int:
        return len(self.start_ns)

    @property
    def end_ns(self) -> Int64:
        """First nanosecond after each event."""
        return self.start_ns + self.dur_ns


@dataclass(frozen=True, kw_only=True)
class HostEvents(Table):
    """Events on host threads: operators, runtime and driver calls, annotations.

    `name`, `thread` and `arguments` are indexes into the Timeline's lists, `category` into
    `CATEGORIES`; `correlation` joins a launch to its work on the device.
    """

    name: Int32
    category: Int8
    thread: Int32
    correlation: Int64
    arguments: Int32


@dataclass(frozen=True, kw_only=True)
class DeviceEvents(Table):
    """Events on devices: kernels, copies and fills.

    `correlation` is the launch's; many kernels of one graph launch share it. `num_bytes` is the
    size of a copy or fill, the last three are `OCCUPANCY`.
    """

    name: Int32
    category: Int8
    device: Int32
    stream: Int64
    correlation: Int64
    num_bytes: Int64
    occupancy_frac: Float32
    blocks_per_sm: Float32
    warps_per_sm: Float32


OCCUPANCY = ("occupancy_frac", "blocks_per_sm", "warps_per_sm")
"""How a launch fills the device: the share of warps that can run at once, and what was launched."""


@dataclass(frozen=True, kw_only=True)
class MemoryEvents(Table):
    """Kineto's `[memory]` marks: each allocation and release (`dur_ns` is 0).

    `device` is -1 for host memory; `changed_bytes` are those of the call, below 0 where it
    releases, and the others those after it.
    """

    device: Int32
    thread: Int32
    changed_bytes: Int64
    allocated_bytes: Int64
    reserved_bytes: Int64


@dataclass(frozen=True, kw_only=True)
class Flows(Table):
    """Ends of arrows between host events (`dur_ns` is 0); launches are joined by correlation.

    `fwdbwd` joins a forward operator to its backward; both ends of an arrow have the same `id`.
    """

    name: Int32
    id: Int64
    thread: Int32
    is_start: Int8


_T = TypeVar("_T", bound=Table)
_DTYPES: dict[str, type[np.generic]] = {
    "name": np.int32,
    "thread": np.int32,
    "arguments": np.int32,
    "device": np.int32,
    "category": np.int8,
    "is_start": np.int8,
    **dict.fromkeys(OCCUPANCY, np.float32),
}
_ZERO_DEFAULT = ("start_ns", "dur_ns", "is_start")
_IDS = ("correlation", "stream", "id")
_LARGEST = np.iinfo(np.int32).max
_TIMES = ("start_ns", "dur_ns")


def make_table(kind: type[_T], **columns: Sequence[int] | AnyArray) -> _T:
    """Build a table from the columns that a source has; the others hold `MISSING`.

    >>> table = make_table(HostEvents, start_ns=[5, 1], dur_ns=[1, 9], name=[0, 1])
    >>> table.name.tolist(), table.correlation.tolist()
    ([1, 0], [-1, -1])
    """
    given = {name: np.asarray(values, dtype_of(name)) for name, values in columns.items()}
    rows = max((len(values) for values in given.values()), default=0)
    none = np.zeros(rows, dtype=np.int64)
    start, dur = (given.get(name, none).astype(np.int64) for name in _TIMES)
    order = start_order(start, dur, given.get("category"))
    return with_missing(
        kind, rows, {name: narrowed(name, values[order]) for name, values in given.items()}
    )


def dtype_of(column: str) -> type[np.generic]:
    """Return the type of a table's column."""
    return _DTYPES.get(column, np.int64)


def narrowed(column: str, values: Any) -> Any:
    """Return a column of ids in 32 bits, if they fit; other columns as they are."""
    if column in _IDS and (
        not len(values) or -_LARGEST <= values.min() <= values.max() <= _LARGEST
    ):
        return values.astype(np.int32)
    return values


def with_missing(kind: type[_T], rows: int, columns: dict[str, Any]) -> _T:
    """Make a table of sorted columns; those that are not given take no memory."""
    for name in {column.name for column in fields(kind)} - columns.keys():
        value = np.array(0 if name in _ZERO_DEFAULT else MISSING, dtype=dtype_of(name))
        columns[name] = np.broadcast_to(value, rows)
    return kind(**columns)


def start_order(start_ns: Int64, dur_ns: Int64, category: AnyArray | None = None) -> Int64:
    """Return the order of rows by start, then longest first, then category, then as they come."""
    order = np.argsort(start_ns, kind="stable")
    ordered = start_ns[order]
    same = ordered[1:] == ordered[:-1]
    tied = np.flatnonzero(np.append(same, False) | np.append(False, same))
    if len(tied):
        among = order[tied]
        keys = (-dur_ns[among], start_ns[among])
        order[tied] = among[np.lexsort(keys if category is None else (category[among], *keys))]
    return order


def select(table: _T, keep: Mask | Int64) -> _T:
    """Return the rows where `keep` is true, or the rows of the given indices."""
    return type(table)(**{f.name: getattr(table, f.name)[keep] for f in fields(table)})


def of_category(table: HostEvents | DeviceEvents, *names: str) -> Mask:
    """Return a mask of the rows of the given categories."""
    # Comparisons, because indexing a table of flags would convert the column to 64 bits.
    mask: Mask = table.category == CATEGORY_ID[names[0]]
    for name in names[1:]:
        mask |= table.category == CATEGORY_ID[name]
    return mask


@dataclass(frozen=True)
class Thread:
    """A host thread as the file names it; `rank` is set in a file that joins several ranks."""

    pid: int | str
    tid: int | str
    name: str | None = None
    rank: str | None = None

    @property
    def label(self) -> str:
        """Its name or number, with its rank."""
        name = self.name or f"thread {self.tid}"
        return f"{self.rank} {name}" if self.rank else name


@dataclass(frozen=True)
class OpArguments:
    """An operator's arguments by input, as recorded with `record_shapes`."""

    dims: tuple[object, ...] = ()
    """A tensor list has a list of shapes, a scalar has `[]`."""
    dtypes: tuple[str, ...] = ()
    """As written in the file (`c10::BFloat16`, `float`)."""
    strides: tuple[object, ...] = ()
    values: tuple[str, ...] = ()
    """Scalars' values as text, empty for tensors, where recorded."""


@dataclass(frozen=True)
class DeviceInfo:
    """A device as the file describes it; `properties` holds the file's own keys.

    `vendor` is in lower case: amd, nvidia, intel. `rank` is set in a file that joins several ranks.
    """

    id: int
    name: str | None
    vendor: str | None = None
    properties: Mapping[str, object] = field(default_factory=dict)
    rank: str | None = None


@dataclass(frozen=True)
class DeviceMetric:
    """Samples of a share of a device's peak while work ran; `device` counts sampled devices."""

    name: str
    device: int
    count: int
    mean_frac: float
    max_frac: float


@dataclass(frozen=True)
class PassedOver:
    """Events with a duration that the reader does not understand, by what their tool calls them.

    `kind` is their category or, without one, the name of their process; `example` is the name of
    the longest.
    """

    kind: str
    count: int
    total_ns: int
    example: str | None = None


@dataclass(frozen=True, kw_only=True)
class Timeline:
    """A trace from any source."""

    source: str
    """Reader's name in `SOURCES`: `kineto`, `rocprof`, `nsys`, ..."""
    origin_ns: int
    """What times are relative to, on the file's own clock."""
    names: Sequence[str]
    host: HostEvents
    device: DeviceEvents
    memory: MemoryEvents = field(default_factory=lambda: make_table(MemoryEvents))
    flows: Flows = field(default_factory=lambda: make_table(Flows))
    threads: Sequence[Thread] = ()
    arguments: Sequence[OpArguments] = ()
    devices: Sequence[DeviceInfo] = ()
    """Devices that the file describes or that have events, by id."""
    metrics: Sequence[DeviceMetric] = ()
    warnings: tuple[str, ...] = ()
    """What is missing or was skipped, in sentences."""
    tool: str | None = None
    """What wrote the file, where it is not the tool that `source` is named after."""
    passed_over: tuple[PassedOver, ...] = ()
    """Events that the reader does not understand, those with the longest total first."""
    cut_count: int = 0
    """Device events that lasted beyond later ones of their stream, and are cut there."""
    left_out_count: int = 0
    """Device events at impossible times, which are left out (`gate.py`)."""
