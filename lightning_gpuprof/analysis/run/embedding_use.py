"""How many rows of each embedding table a batch looks up, as a look at a first batch noted it."""

from collections.abc import Iterable

from msgspec import Struct

from lightning_gpuprof.records.notes import last_noted
from lightning_gpuprof.analysis.run.repeated_forward import CallPlace
from lightning_gpuprof.records.schema import Note

NOTE = "embedding_use"
"""Note of this name: the trained embedding tables whose gradients are dense."""


class EmbeddingUse(Struct, frozen=True):
    """A trained table with dense gradients.

    Args:
        name: As in `named_modules()`.
        rows: Rows of the table.
        width: Numbers per row.
        looked_up: Indices that one batch gave it: it touches so many rows at most.
        place: Where it was called from.
    """

    name: str
    rows: int
    width: int
    looked_up: int
    place: CallPlace | None = None


def embedding_use(notes: Iterable[Note]) -> tuple[EmbeddingUse, ...]:
    """Return what was noted of embedding tables."""
    return last_noted(notes, NOTE, tuple[EmbeddingUse, ...]) or ()
