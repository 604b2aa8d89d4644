"""Notes whose value is a type of its own: what a callback writes, and how it is read back."""

from collections.abc import Iterable
from typing import TypeVar

from msgspec import Struct, ValidationError, convert

from lightning_gpuprof.records.schema import Note

UNUSED_NOTE = "unused_gradients"
"""Note of this name: some gradients are never stepped on."""
CHECKPOINT_NOTE = "checkpoint_content"
"""Note of this name: what a checkpoint consists of."""
SYNCED_NOTE = "synced_logs"
"""Note of this name: what `self.log` exchanges between ranks in each step (`sync_dist=True`)."""
_T = TypeVar("_T")


class UnusedGradients(Struct, frozen=True):
    """Parameters whose gradients no optimizer uses.

    Args:
        tensors: How many parameter tensors.
        parameters: How many numbers they hold.
        all_parameters: The same of the whole module.
        modules: The outermost modules that hold nothing else, or the parameters themselves.
    """

    tensors: int
    parameters: int
    all_parameters: int
    modules: tuple[str, ...]


class CheckpointContent(Struct, frozen=True):
    """The bytes of a checkpoint's tensors.

    Args:
        trained_bytes: Parameters that require gradients.
        frozen_bytes: Parameters that do not.
        buffer_bytes: Buffers, and whatever else the module's `state_dict` holds.
        optimizer_bytes: The optimizers' states.
        largest_frozen: Name of the largest frozen parameter.
        largest_buffers: Names and bytes of the largest buffers, three at most.
        hparams_bytes: What `save_hyperparameters` has kept beside that: arrays, tables, whole
            modules. None where it could not be read, and in older files.
        largest_hparams: Names and bytes of the largest of them, three at most.
    """

    trained_bytes: int
    frozen_bytes: int
    buffer_bytes: int
    optimizer_bytes: int
    largest_frozen: str | None = None
    largest_buffers: tuple[tuple[str, int], ...] = ()
    hparams_bytes: int | None = None
    largest_hparams: tuple[tuple[str, int], ...] = ()

    @property
    def fixed_bytes(self) -> int:
        """The part that gradients do not change."""
        return self.frozen_bytes + self.buffer_bytes + (self.hparams_bytes or 0)

    @property
    def whole_bytes(self) -> int:
        """All of it."""
        return self.trained_bytes + self.fixed_bytes + self.optimizer_bytes


def last_noted(notes: Iterable[Note], name: str, kind: type[_T]) -> _T | None:
    """Return the value of the last note of a name; None without one, or where it is no such value.

    >>> last_noted([Note(step=1, name="a", value=2), Note(step=3, name="a", value=4)], "a", int)
    4
    """
    values = [note.value for note in notes if note.name == name]
    try:
        return convert(values[-1], kind) if values else None
    except ValidationError:
        return None


def unused_gradients(notes: Iterable[Note]) -> UnusedGradients | None:
    """Return what was noted of unused gradients; None where there are none."""
    return last_noted(notes, UNUSED_NOTE, UnusedGradients)
