"""One Kineto event as msgspec decodes it: only the keys that an analysis uses are kept."""

from enum import Enum

import msgspec
from typing_extensions import override

from lightning_gpuprof.traces.timeline import MISSING

Number = int | float
Loose = int | float | str | None
"""An id as files write it: a number, a string such as `"0x0"`, or null."""
NOTHING = msgspec.Raw(b"")


class EventKind(Enum):
    """The Chrome trace event types that appear; decoding to members allocates nothing."""

    COMPLETE = "X"
    FLOW_START = "s"
    FLOW_END = "f"
    INSTANT = "i"
    METADATA = "M"
    COUNTER = "C"
    OTHER = "other"

    __hash__ = object.__hash__

    @override
    @classmethod
    def _missing_(cls, value: object) -> "EventKind":
        return cls.OTHER


class Kind(Enum):
    """The `cat` values that are told apart, or come often; all others are one.

    Of each value that is not listed, decoding calls `_missing_` for every event.
    """

    CPU_OP = "cpu_op"
    USER_ANNOTATION = "user_annotation"
    CUDA_RUNTIME = "cuda_runtime"
    CUDA_DRIVER = "cuda_driver"
    XPU_RUNTIME = "xpu_runtime"
    XPU_DRIVER = "xpu_driver"
    XPU_SYNC = "xpu_sync"
    MTIA_RUNTIME = "mtia_runtime"
    PRIVATE_RUNTIME = "privateuse1_runtime"
    PRIVATE_DRIVER = "privateuse1_driver"
    PYTHON_FUNCTION = "python_function"
    KERNEL = "kernel"
    GPU_MEMCPY = "gpu_memcpy"
    GPU_MEMSET = "gpu_memset"
    GPU_USER_ANNOTATION = "gpu_user_annotation"
    CUDA_SYNC = "cuda_sync"
    OVERHEAD = "overhead"
    FORWARD_BACKWARD = "fwdbwd"
    OLD_FORWARD_BACKWARD = "forward_backward"
    LAUNCH_FLOW = "ac2g"
    OLD_LAUNCH_FLOW = "async_cpu_to_gpu"
    OLDEST_LAUNCH_FLOW = "async"
    INSTANT = "cpu_instant_event"
    OLD_OPERATOR = "Operator"
    OLD_RUNTIME = "Runtime"
    OLD_KERNEL = "Kernel"
    OLD_MEMCPY = "Memcpy"
    OLD_MEMSET = "Memset"
    OLD_PYTHON = "Python"
    OLD_ANNOTATION = "User Annotation"
    SPAN = "Trace"
    OTHER = "other"

    __hash__ = object.__hash__

    @override
    @classmethod
    def _missing_(cls, value: object) -> "Kind":
        return cls.OTHER


class Args(msgspec.Struct, gc=False):
    """The `args` of an event."""

    correlation: Loose = MISSING
    device: Loose = MISSING
    stream: Loose = MISSING
    bytes: Loose = MISSING
    wait_on_stream: Loose = MISSING
    wait_on_correlation: Loose = msgspec.field(
        default=MISSING, name="wait_on_cuda_event_record_corr_id"
    )
    name: Loose = None
    dims: msgspec.Raw = msgspec.field(default=NOTHING, name="Input Dims")
    dtypes: msgspec.Raw = msgspec.field(default=NOTHING, name="Input type")
    strides: msgspec.Raw = msgspec.field(default=NOTHING, name="Input Strides")
    values: msgspec.Raw = msgspec.field(default=NOTHING, name="Concrete Inputs")


class FullArgs(Args, gc=False):
    """`Args` and what is read only on demand: the allocator's marks."""

    memory_device: Loose = msgspec.field(default=MISSING, name="Device Id")
    memory_device_type: Loose = msgspec.field(default=MISSING, name="Device Type")
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


class FullEvent(Event, gc=False):
    """An event with `FullArgs`."""

    args: FullArgs | None = None


class Times(msgspec.Struct, gc=False):
    """An event's times as text, for files whose times a float64 cannot hold."""

    ts: msgspec.Raw = NOTHING
    dur: msgspec.Raw = NOTHING
