"""One Kineto event as msgspec decodes it, with the keys that an analysis uses, and its times."""

from collections.abc import Sequence
from enum import Enum
from typing import Any

import msgspec
import numpy as np
from typing_extensions import override

from lightning_gpuprof.arrays import Int64
from lightning_gpuprof.traces.columns import LIMIT_NS
from lightning_gpuprof.traces.timeline import MISSING

Number = int | float
Loose = int | float | str | None
"""An id as files write it: a number, a string such as `"0x0"`, or null."""
NOTHING = msgspec.Raw(b"")


class _OrOther(Enum):
    """Decoding to members allocates nothing; a value that is not listed is `OTHER`."""

    __hash__ = object.__hash__

    @override
    @classmethod
    def _missing_(cls, value: object) -> Any:
        return cls["OTHER"]


class EventKind(_OrOther):
    """The Chrome trace event types that appear."""

    COMPLETE = "X"
    BEGIN = "B"
    FLOW_START = "s"
    FLOW_END = "f"
    INSTANT = "i"
    METADATA = "M"
    COUNTER = "C"
    OTHER = "other"


class Kind(_OrOther):
    """The `cat` values that are read or frequent; others are an alias of one of these, or `OTHER`.

    Frequent values are listed even if they are not read, because decoding calls `_missing_` for
    every event with a value that is not listed.
    """

    CPU_OP = "cpu_op"
    USER_ANNOTATION = "user_annotation"
    CUDA_RUNTIME = "cuda_runtime"
    CUDA_DRIVER = "cuda_driver"
    PYTHON_FUNCTION = "python_function"
    KERNEL = "kernel"
    GPU_MEMCPY = "gpu_memcpy"
    GPU_MEMSET = "gpu_memset"
    GPU_USER_ANNOTATION = "gpu_user_annotation"
    CUDA_SYNC = "cuda_sync"
    OVERHEAD = "overhead"
    FORWARD_BACKWARD = "fwdbwd"
    LAUNCH_FLOW = "ac2g"
    INSTANT = "cpu_instant_event"
    SPAN = "Trace"
    OTHER = "other"

    @override
    @classmethod
    def _missing_(cls, value: object) -> Any:
        return _ALIASES.get(value, cls.OTHER)


_ALIASES: dict[object, Kind] = {
    **dict.fromkeys(("Runtime", "xpu_runtime", "mtia_runtime"), Kind.CUDA_RUNTIME),
    **{"privateuse1_runtime": Kind.CUDA_RUNTIME, "privateuse1_driver": Kind.CUDA_DRIVER},
    **{"xpu_driver": Kind.CUDA_DRIVER, "xpu_sync": Kind.CUDA_SYNC, "Operator": Kind.CPU_OP},
    **{"Kernel": Kind.KERNEL, "Memcpy": Kind.GPU_MEMCPY, "Memset": Kind.GPU_MEMSET},
    **{"Python": Kind.PYTHON_FUNCTION, "User Annotation": Kind.USER_ANNOTATION},
    # What CUPTI measured over ranges, and links between events: no work of its own.
    **dict.fromkeys(("cuda_profiler_range", "external_correlation", "cuda_event"), Kind.SPAN),
    **{"forward_backward": Kind.FORWARD_BACKWARD, "async_cpu_to_gpu": Kind.LAUNCH_FLOW},
}
"""Category names of releases before 2022, and of other kinds of devices."""
CATEGORY_NAMES = {kind.value for kind in Kind if kind is not Kind.OTHER} | set(_ALIASES)
"""All `cat` values whose meaning is known."""


class Args(msgspec.Struct, gc=False):
    """The `args` of an event."""

    correlation: Loose = MISSING
    device: Loose = MISSING
    stream: Loose = MISSING
    bytes: Loose = MISSING
    name: Loose = None
    dims: msgspec.Raw = msgspec.field(default=NOTHING, name="Input Dims")
    dtypes: msgspec.Raw = msgspec.field(default=NOTHING, name="Input type")
    strides: msgspec.Raw = msgspec.field(default=NOTHING, name="Input Strides")
    values: msgspec.Raw = msgspec.field(default=NOTHING, name="Concrete Inputs")
    occupancy_frac: Loose = msgspec.field(default=MISSING, name="est. achieved occupancy %")
    blocks_per_sm: Loose = msgspec.field(default=MISSING, name="blocks per SM")
    warps_per_sm: Loose = msgspec.field(default=MISSING, name="warps per SM")
    # Of the allocator's marks.
    memory_device: Loose = msgspec.field(default=MISSING, name="Device Id")
    memory_device_type: Loose = msgspec.field(default=MISSING, name="Device Type")
    changed: Loose = msgspec.field(default=0, name="Bytes")
    allocated: Loose = msgspec.field(default=MISSING, name="Total Allocated")
    reserved: Loose = msgspec.field(default=MISSING, name="Total Reserved")


class Event(msgspec.Struct, gc=False):
    """An event of any type."""

    ph: EventKind = EventKind.OTHER
    cat: Kind | None = None
    name: str = ""
    pid: int | str | None = None
    tid: int | str | None = None
    ts: Number = 0
    dur: Number | None = None
    id: Loose = MISSING
    args: Args | None = None


class Times(msgspec.Struct, gc=False):
    """An event's times as text, for files whose times a float64 cannot hold."""

    ts: msgspec.Raw = NOTHING
    dur: msgspec.Raw = NOTHING


EXACT_US = 2.0**43
"""Below this a float64's last bit is under 0.001 us, so that three decimals survive.

Kineto moves its time base four times a year for this reason; times of older files, which count from
1970, are above."""


def exact_ns(text: bytes) -> int:
    """Return decimal microseconds as nanoseconds, without going through a float.

    >>> exact_ns(b"1683564901548726.123"), exact_ns(b"12"), exact_ns(b"-0.5"), exact_ns(b"1.5e3")
    (1683564901548726123, 12000, -500, 1500000)
    """
    text = text.strip().strip(b'"')
    whole, point, decimals = text.partition(b".")
    if not point and whole.lstrip(b"-").isdigit():
        return int(whole) * 1000
    if not decimals.isdigit():  # an exponent, or not a number
        return round(float(text) * 1000) if text not in (b"", b"null") else 0
    digits = int(decimals[:3].ljust(3, b"0")) + (decimals[3:4] >= b"5")
    ns = abs(int(whole or b"0")) * 1000 + digits
    return -ns if whole.startswith(b"-") else ns


def exact_ns_of(texts: Sequence[bytes | msgspec.Raw]) -> Int64:
    """Return many times as `exact_ns` does. Those that Kineto writes take a tenth of its time.

    >>> exact_ns_of([b"1683564901548726.123", b"0.500"]).tolist(), exact_ns_of([b"12"]).tolist()
    ([1683564901548726123, 500], [12000])
    """
    joined = b",".join(texts)
    characters = np.frombuffer(joined, dtype=np.uint8)
    points, commas = (np.flatnonzero(characters == ord(character)) for character in ".,")
    digits = ((characters >= ord("0")) & (characters <= ord("9"))).sum()
    three_decimals = (
        digits + len(points) + len(commas) == len(joined)
        and len(points) == len(commas) + 1 == len(texts)
        and (np.append(commas, len(joined)) - points == 4).all()
    )
    if three_decimals:
        return np.fromstring(joined.replace(b".", b"").decode(), dtype=np.int64, sep=",")
    return np.array([exact_ns(bytes(text)) for text in texts], dtype=np.int64)


def to_ns(us: Sequence[int | float]) -> Int64 | None:
    """Convert microseconds; None where a fraction is beyond what a float64 holds.

    >>> to_ns([1419247332972.313, 5]).tolist(), to_ns([1683564901548726.5])
    ([1419247332972313, 5000], None)

    Raises:
        TypeError: A value is None.
    """
    try:
        values = np.fromiter(us, np.float64, len(us))
    except OverflowError:
        return None
    largest = np.abs(values).max(initial=0)
    if np.isnan(largest):  # numpy makes it of None
        raise TypeError("A time is None.")
    if largest >= EXACT_US:
        return _whole_us_to_ns(us)
    whole = np.floor(values)
    ns: Int64 = np.rint((values - whole) * 1000).astype(np.int64)
    ns += whole.astype(np.int64) * 1000
    return ns


def _whole_us_to_ns(us: Sequence[int | float]) -> Int64 | None:
    """Convert whole microseconds, which a float64 need not hold; None for others."""
    values = np.array(us)
    if values.dtype != np.int64 or max(values.max(), -values.min()) > LIMIT_NS // 1000:
        return None
    ns: Int64 = values * 1000
    return ns
