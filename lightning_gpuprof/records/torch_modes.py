"""Which modes of torch's were open around training steps: they are told of every operator."""

from collections.abc import Iterable

from msgspec import Struct

from lightning_gpuprof.records.module_calls import CallPlace
from lightning_gpuprof.records.notes import last_noted
from lightning_gpuprof.records.schema import Note

MODES_NOTE = "torch_modes"
"""Note of this name: modes that were open in two batches in a row; none, where they are shut."""


class TorchMode(Struct, frozen=True):
    """A `TorchDispatchMode` or a `TorchFunctionMode` on torch's stack of them.

    Args:
        name: Its class, by the name under which a program makes one.
        dispatch: It is told of operators, in forward and backward; else of torch's functions,
            which backward calls none of.
        package: Whose class it is: empty where it is the program's own.
        forward: It was open while modules ran, or right before backward.
        backward: It was open in the backward pass.
        place: The line of the program that makes it, where one looks like it.
    """

    name: str
    dispatch: bool
    package: str
    forward: bool
    backward: bool
    place: CallPlace | None = None


def torch_modes(notes: Iterable[Note]) -> tuple[TorchMode, ...]:
    """Return the modes that were noted last; empty where none was, or they are shut by then."""
    return last_noted(notes, MODES_NOTE, tuple[TorchMode, ...]) or ()
