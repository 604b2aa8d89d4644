"""How modules are called, as a look at the first batches noted it."""

from collections.abc import Iterable

from msgspec import Struct

from lightning_gpuprof.records.notes import last_noted
from lightning_gpuprof.records.schema import Note

REPEATED_NOTE = "repeated_forward"
"""Note of this name: a module computes in one batch what it has just computed."""
TABLES_NOTE = "embedding_use"
"""Note of this name: the trained embedding tables whose gradients are dense."""


MOST_PLACES = 3
"""Of what is done at several lines no more are noted, those with the most time first."""


class CallPlace(Struct, frozen=True):
    """The line of the user's own from which a module was called."""

    file: str
    line: int
    function: str
    source: str


class RepeatedModule(Struct, frozen=True):
    """A module that was called several times with the same input and the same weights.

    Args:
        name: As in `named_modules()`; empty for the LightningModule itself.
        calls: Such calls per batch.
        repeat_ns: Host time per batch of all such calls but the longest.
        backward_frac: The share of `repeat_ns` whose gradients go back in one and the same
            backward pass: with one call, that goes once, too.
        places: Where it was called from.
        passes: Backward passes per batch that these calls are in, each with a gradient of its own.
        closure: With automatic optimization, the line that calls the closure beside the optimizer.
    """

    name: str
    calls: int
    repeat_ns: int
    backward_frac: float
    places: tuple[CallPlace, ...]
    passes: int = 1
    closure: CallPlace | None = None


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


def repeated_forward(notes: Iterable[Note]) -> tuple[RepeatedModule, ...]:
    """Return what was noted of repeated modules, the costliest first."""
    return last_noted(notes, REPEATED_NOTE, tuple[RepeatedModule, ...]) or ()


def embedding_use(notes: Iterable[Note]) -> tuple[EmbeddingUse, ...]:
    """Return what was noted of embedding tables."""
    return last_noted(notes, TABLES_NOTE, tuple[EmbeddingUse, ...]) or ()
