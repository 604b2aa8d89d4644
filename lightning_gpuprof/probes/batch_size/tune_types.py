"""What is measured at one batch size, as plain data between processes; loads no torch."""

import msgspec


class TuneRequest(msgspec.Struct, kw_only=True, frozen=True):
    """What to measure: one batch size, in a process of its own."""

    model: str
    """`package.module:function` or `file.py:function`."""
    batch_size: int
    steps: int
    warmup: int
    optimizer: str = "model"
    precision: str = "32-true"
    device: str = "auto"
    """auto, cpu or cuda."""


class TunePoint(msgspec.Struct, kw_only=True, frozen=True):
    """What training at one batch size took; memory is None where it is not measured (CPU).

    Either `step_ns` is given, or `error` says why the size did not run.
    """

    batch_size: int
    device: str | None = None
    step_ns: int | None = None
    """The median of the measured steps."""
    peak_allocated_bytes: int | None = None
    peak_reserved_bytes: int | None = None
    resting_bytes: int | None = None
    """Allocated between steps."""
    others_bytes: int | None = None
    """Of the device, outside torch's allocator."""
    total_bytes: int | None = None
    out_of_memory: bool = False
    error: str | None = None
