"""Times single calls of operators: `python -m lightning_gpuprof.adapters.operator_times`.

Reads a `TimingRequest` from stdin and writes a `TimingReply` to stdout, both as JSON. It runs in a
process of its own, so that it depends on no setting of the program and changes none.

Names in torch 2.2 to 2.13, without which nothing is timed: `torch.ops.aten`, whose packets have
`overloads()`, each of these with its `_schema`.
"""

import ast
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from math import prod
from typing import Any

import msgspec
import torch

from lightning_gpuprof.records.operator_times import (
    OperatorInputs,
    OperatorTimes,
    TimingReply,
    TimingRequest,
)

REPEATS = 5
"""Calls that are timed with each kind of inputs, after one to warm up."""
MOST_NS = 100_000_000
"""Where calls with a kind of inputs have taken this time, there is no further one."""
CACHE_BYTES = 32 << 20
"""So many bytes are written before calls are timed, so that their inputs come from memory, as they
do in training."""
MOST_BYTES = 256 << 20
"""The most that the inputs of a call may take."""
FLOATS = {
    "float": torch.float32,
    "double": torch.float64,
    "c10::Half": torch.float16,
    "c10::BFloat16": torch.bfloat16,
}
"""Types of tensors that are compared with float32, by their names in traces."""
TYPES = FLOATS | {
    "bool": torch.bool,
    "unsigned char": torch.uint8,
    "signed char": torch.int8,
    "int": torch.int32,
    "long int": torch.int64,
    "long": torch.int64,
}
_INTEGERS = {8: torch.int64, 4: torch.int32, 2: torch.int16}
"""Integer types by their size."""


class CannotBeCalledError(Exception):
    """The recorded inputs do not suffice for a call."""


class TensorInput:
    """A tensor of a recorded shape, type and strides."""

    def __init__(self, dims: Sequence[int], dtype: str, strides: Sequence[int]) -> None:
        self.dims, self.dtype = tuple(dims), TYPES[dtype]
        if not all(0 < size <= MOST_BYTES for size in self.dims):
            raise CannotBeCalledError
        dense = tuple(prod(self.dims[index + 1 :]) for index in range(len(self.dims)))
        self.strides = tuple(strides) if len(strides) == len(dims) else dense
        self.is_contiguous = all(
            size == 1 or stride == usual
            for size, stride, usual in zip(self.dims, self.strides, dense, strict=True)
        )
        steps = zip(self.dims, self.strides, strict=True)
        self._reach = 1 + sum((size - 1) * stride for size, stride in steps)
        self.num_bytes = max(prod(self.dims), self._reach) * self.dtype.itemsize
        if min(self.strides, default=0) < 0 or self.num_bytes > MOST_BYTES:
            raise CannotBeCalledError

    @property
    def is_float(self) -> bool:
        """Whether it holds floating-point numbers."""
        return self.dtype.is_floating_point

    def make(self, dtype: torch.dtype | None, *, strided: bool, denormal: bool) -> torch.Tensor:
        """Return a new tensor, of another type if one is given and this one holds floats.

        Numbers are between 0.5 and 1.5, or denormal; integers are 1.
        """
        chosen = self.dtype if dtype is None or not self.is_float else dtype
        size = self._reach if strided else prod(self.dims)
        if not chosen.is_floating_point:
            memory = torch.ones(size, dtype=chosen)
        elif denormal:
            integers = _INTEGERS[chosen.itemsize]
            normal = torch.tensor(torch.finfo(chosen).smallest_normal, dtype=chosen)
            bits = torch.randint(1, int(normal.view(integers)), (size,), dtype=integers)
            memory = bits.view(chosen)
        else:
            memory = torch.empty(size).uniform_(0.5, 1.5).to(chosen)
        return memory.as_strided(self.dims, self.strides) if strided else memory.view(self.dims)


class TimedCall:
    """An operator with its recorded inputs, ready to be called.

    Raises:
        CannotBeCalledError: Inputs are missing, too large, or of types that are not timed.
    """

    def __init__(self, call: OperatorInputs) -> None:
        self._inputs = [_input(call, index) for index in range(len(call.dims))]
        self._overload = _overload(call.name, self._inputs)
        self._tensors = [value for value in self._inputs if isinstance(value, TensorInput)]
        floats = [tensor for tensor in self._tensors if tensor.is_float]
        self._num_bytes = sum(tensor.num_bytes for tensor in self._tensors)
        if not floats or self._num_bytes > MOST_BYTES:
            raise CannotBeCalledError
        self._largest = max(floats, key=lambda tensor: tensor.num_bytes)

    def times(self) -> OperatorTimes:
        """Return the times of calls with each kind of inputs."""
        types = {tensor.dtype for tensor in self._tensors if tensor.is_float}
        normal_ns = self._fastest_ns(dtype=torch.float32)
        typed_ns = normal_ns if types == {torch.float32} else self._fastest_ns()
        contiguous = all(tensor.is_contiguous for tensor in self._tensors)
        strided_ns = typed_ns if contiguous else self._fastest_ns(strided=True)
        denormal_ns = self._fastest_ns(strided=True, denormal=True)
        with ThreadPoolExecutor(1) as flushing:
            flushed_ns = flushing.submit(self._flushed_ns, torch.get_num_threads()).result()
        return OperatorTimes(normal_ns, typed_ns, strided_ns, denormal_ns, flushed_ns)

    def _flushed_ns(self, threads: int) -> int:
        """Return the time with denormal numbers where the CPU takes them for 0, if it can.

        The setting is that of a thread, and of the threads that it starts. A thread for this alone
        leaves the others as they are.
        """
        torch.set_num_threads(threads)
        torch.set_flush_denormal(True)
        with torch.no_grad():
            return self._fastest_ns(strided=True, denormal=True)

    def _fastest_ns(
        self, *, dtype: torch.dtype | None = None, strided: bool = False, denormal: bool = False
    ) -> int:
        """Return the fastest time of calls whose inputs are not in the cache."""
        copies = min(REPEATS, 1 + CACHE_BYTES // self._num_bytes)
        made = [
            self._arguments(dtype, strided=strided, denormal=denormal) for _ in range(copies + 1)
        ]
        torch.ones(CACHE_BYTES // 4).add_(1)
        times_ns = [self._timed_ns(*made[-1])]
        while len(times_ns) <= REPEATS and sum(times_ns) < MOST_NS:
            times_ns.append(self._timed_ns(*made[len(times_ns) % copies]))
        return min(times_ns[1:] or times_ns)

    def _timed_ns(self, positional: list[Any], by_name: dict[str, Any]) -> int:
        begun_ns = time.perf_counter_ns()
        self._overload(*positional, **by_name)
        return time.perf_counter_ns() - begun_ns

    def _arguments(
        self, dtype: torch.dtype | None, *, strided: bool, denormal: bool
    ) -> tuple[list[Any], dict[str, Any]]:
        """Return new inputs, positional ones and those that are passed by name."""
        positional, by_name = [], {}
        for value, argument in zip(self._inputs, self._overload._schema.arguments, strict=True):
            if isinstance(value, TensorInput):
                value = value.make(
                    dtype, strided=strided, denormal=denormal and value is self._largest
                )
            elif value is ...:
                value = argument.default_value if argument.has_default_value() else None
            if argument.kwarg_only:
                by_name[argument.name] = value
            else:
                positional.append(value)
        return positional, by_name


def _input(call: OperatorInputs, index: int) -> Any:
    """Return a `TensorInput`, a plain value, or `...` for what was not recorded or is None."""
    dtype = call.dtypes[index] if index < len(call.dtypes) else ""
    if dtype in TYPES:
        strides = call.strides[index] if index < len(call.strides) else ()
        return TensorInput(call.dims[index], dtype, strides)
    value = call.values[index] if index < len(call.values) else ""
    if value:
        try:
            return ast.literal_eval(value)
        except ValueError:
            return value  # a text, such as the `none` of gelu
    if call.dims[index]:
        raise CannotBeCalledError  # a list of tensors, or a type that is not timed
    return ...


def _overload(name: str, inputs: Sequence[Any]) -> Any:
    """Return the overload of an operator that takes such inputs."""
    packet = getattr(torch.ops.aten, name.removeprefix("aten::"))
    for overload in (getattr(packet, overload) for overload in packet.overloads()):
        arguments = overload._schema.arguments
        if len(arguments) == len(inputs) and all(
            value is ... or isinstance(value, TensorInput) == (str(argument.type) in _TENSORS)
            for value, argument in zip(inputs, arguments, strict=True)
        ):
            return overload
    raise CannotBeCalledError


_TENSORS = ("Tensor", "Optional[Tensor]")


def times_of(call: OperatorInputs) -> OperatorTimes | None:
    """Time the calls of an operator; None if its inputs do not suffice, or torch refuses them."""
    try:
        with torch.no_grad():
            return TimedCall(call).times()
    except (CannotBeCalledError, RuntimeError, TypeError, ValueError, SyntaxError, AttributeError):
        return None


def queued_ns(tasks: str = "/proc/self/task") -> int:
    """Return how long this thread has waited for a core; 0 if the kernel does not say."""
    path = f"{tasks}/{threading.get_native_id()}/schedstat"
    with suppress(OSError, ValueError, IndexError), open(path, encoding="ascii") as file:
        return int(file.read().split()[1])
    return 0


def main() -> None:
    """Answer the request on stdin."""
    request = msgspec.json.decode(sys.stdin.buffer.read(), type=TimingRequest)
    torch.set_num_threads(request.threads)
    begun_ns, queued_before_ns = time.perf_counter_ns(), queued_ns()
    times = tuple(map(times_of, request.calls))
    waited_frac = (queued_ns() - queued_before_ns) / (time.perf_counter_ns() - begun_ns)
    reply = TimingReply(str(torch.__version__), times, waited_frac)
    sys.stdout.buffer.write(msgspec.json.encode(reply))


if __name__ == "__main__":
    main()
