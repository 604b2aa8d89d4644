"""A backend of torch's that was switched off in training, and what that was tried to cost."""

from collections.abc import Iterable

from msgspec import Struct

from lightning_gpuprof.records.module_calls import CallPlace
from lightning_gpuprof.records.notes import last_noted
from lightning_gpuprof.records.schema import Note

BACKEND_NOTE = "backend_off"
"""Note of this name: a backend is switched off; once more when training ended and it was tried."""


class BackendOff(Struct, frozen=True):
    """A switched-off backend.

    Args:
        backend: `mkldnn` or `cudnn`, as `torch.backends` has it.
        place: The line of the program that switches it off, where one looks like it.
        calls: Calls of layers per step that were tried both ways; 0 where none was.
        as_set_ns: What these take, forward and backward, as it is set.
        enabled_ns: The same with the backend.
    """

    backend: str
    place: CallPlace | None = None
    calls: int = 0
    as_set_ns: int = 0
    enabled_ns: int = 0


def backend_off(notes: Iterable[Note]) -> BackendOff | None:
    """Return the backend that was noted to be off; None where none was."""
    return last_noted(notes, BACKEND_NOTE, BackendOff)
