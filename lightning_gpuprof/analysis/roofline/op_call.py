"""One operator call's recorded arguments, and what it costs."""

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from lightning_gpuprof.traces.timeline import OpArguments

Shape = tuple[int, ...]
_DTYPES = {
    "c10::BFloat16": ("bf16", 2),
    "c10::Half": ("fp16", 2),
    "float": ("fp32", 4),
    "double": ("fp64", 8),
    "signed char": ("int8", 1),
    "unsigned char": ("uint8", 1),
    "bool": ("bool", 1),
    "int": ("int32", 4),
    "long int": ("int64", 8),
    "long": ("int64", 8),
}
MATRIX, VECTOR = "matrix", "vector"
MOST_ELEMENTS = 1 << 62
LONGEST_VALUE = 256
"""Characters of a value that is looked at: an argument that a cost depends on is short."""


@dataclass(frozen=True)
class Cost:
    """The work of one call."""

    flop_count: int
    num_bytes: int
    dtype: str
    unit: str
    category: str


class UnknownArgumentError(Exception):
    """A shape, type or value that the cost needs was not recorded."""


class OperatorCall:
    """An operator's arguments, by position.

    Every method raises `UnknownArgumentError` for what was not recorded.
    """

    def __init__(self, name: str, arguments: OpArguments) -> None:
        self.name, self._arguments = name, arguments
        self.argument_count = len(arguments.dims)

    def shape(self, index: int) -> Shape:
        """Return a tensor's shape."""
        dims = self._arguments.dims
        if index >= len(dims) or not isinstance(dims[index], Sequence):
            raise UnknownArgumentError
        shape: Shape = tuple(dims[index])  # type: ignore[arg-type]
        if not all(isinstance(size, int) for size in shape) or abs(prod(shape)) > MOST_ELEMENTS:
            raise UnknownArgumentError
        return shape

    def is_tensor(self, index: int) -> bool:
        """Return whether the input is a tensor of a known type."""
        dtypes = self._arguments.dtypes[: self.argument_count]
        return index < len(dtypes) and dtype_of(dtypes[index]) is not None

    def dtype(self, index: int) -> tuple[str, int]:
        """Return a tensor's short type name and the bytes of one element."""
        dtypes = self._arguments.dtypes
        short = dtype_of(dtypes[index]) if index < len(dtypes) else None
        if short is None:
            raise UnknownArgumentError
        return short

    def footprint(self, index: int) -> int:
        """Return the bytes of an input; dimensions of stride 0 hold one element."""
        shape = self.shape(index)
        strides = self._arguments.strides
        if index < len(strides) and isinstance(strides[index], Sequence):
            stride: Shape = tuple(strides[index])  # type: ignore[arg-type]
            if len(stride) == len(shape):
                shape = tuple(n if s else 1 for n, s in zip(shape, stride, strict=True))
        return prod(shape) * self.dtype(index)[1]

    def value(self, index: int) -> object:
        """Return the value of an input that is no tensor: a number, truth value or list."""
        values = self._arguments.values
        if index >= len(values) or not 0 < len(values[index]) <= LONGEST_VALUE:
            raise UnknownArgumentError
        try:
            return ast.literal_eval(values[index])
        except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
            raise UnknownArgumentError from None

    def ints(self, index: int) -> Shape:
        """Return the value of an input that is an integer or a list of them."""
        value = self.value(index)
        if isinstance(value, int):
            return (value,)
        if isinstance(value, (list, tuple)) and all(isinstance(v, int) for v in value):
            return tuple(value)
        raise UnknownArgumentError

    def cost(
        self, flop_count: int, num_bytes: int, unit: str, category: str, *, of: int = 0
    ) -> Cost:
        """Make the cost, with the type of input `of`."""
        return Cost(flop_count, num_bytes, self.dtype(of)[0], unit, category)


def dtype_of(text: str) -> tuple[str, int] | None:
    """Return short name and size of a recorded type; None for what is no tensor's."""
    return ("fp8", 1) if text.startswith("c10::Float8") else _DTYPES.get(text)


def broadcast(left: Shape, right: Shape) -> Shape:
    """Return the shape of two inputs broadcast together."""
    longer, shorter = (left, right) if len(left) >= len(right) else (right, left)
    padded = (1,) * (len(longer) - len(shorter)) + tuple(shorter)
    return tuple(max(a, b) if 0 not in (a, b) else 0 for a, b in zip(longer, padded, strict=True))
