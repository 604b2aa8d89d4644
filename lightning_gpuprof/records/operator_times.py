"""Calls of operators to be timed, and their times: messages to the process that times them."""

from typing import Any

from msgspec import Struct, json


class OperatorInputs(Struct, frozen=True):
    """An operator and the inputs of its calls, as torch.profiler records them.

    Args:
        name: With its namespace, such as `aten::mm`.
        dims: By input, a tensor's shape; `[]` for anything else.
        dtypes: By input, the type as it is called in traces (`float`, `c10::Half`, `Scalar`).
        strides: By input, a tensor's strides; empty if they were not recorded.
        values: By input, the value of a number, a truth value or a list as text; else empty.
    """

    name: str
    dims: tuple[Any, ...]
    dtypes: tuple[str, ...]
    strides: tuple[Any, ...] = ()
    values: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """Text that is the same for calls with equal inputs."""
        return json.encode(self).decode()


class OperatorTimes(Struct, frozen=True):
    """How long one call takes on this machine with other inputs each.

    Args:
        normal_ns: Ordinary numbers in float32, all tensors contiguous.
        typed_ns: The same in the recorded types.
        strided_ns: With the recorded strides, too.
        denormal_ns: As before, where the largest tensor holds denormal numbers.
        flushed_ns: The same after `torch.set_flush_denormal(True)`.
    """

    normal_ns: int
    typed_ns: int
    strided_ns: int
    denormal_ns: int
    flushed_ns: int


class TimingRequest(Struct, frozen=True):
    """What to time, and with how many threads of torch."""

    threads: int
    calls: tuple[OperatorInputs, ...]


class TimingReply(Struct, frozen=True):
    """The times of the calls in a request; None for a call that cannot be made."""

    torch: str
    """The version."""
    times: tuple[OperatorTimes | None, ...]
    waited_frac: float = 0.0
    """The share of the time in which the process waited for a core."""
