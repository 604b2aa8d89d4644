"""How much of the batches is padding, as a look at the first ones noted it."""

from collections.abc import Iterable

from msgspec import Struct

from lightning_gpuprof.records.module_calls import CallPlace
from lightning_gpuprof.records.notes import last_noted
from lightning_gpuprof.records.schema import Note

PADDING_NOTE = "padding"
"""Note of this name: sequences of the batches that end in padding."""


class Padding(Struct, frozen=True):
    """A tensor of the batches whose last positions were one and the same value in all samples.

    Args:
        path: Which, such as `0` or `input_ids`.
        kind: `ids` (whole numbers) or `vectors`.
        samples: Samples of each batch.
        widths: Positions in each batch that was looked at.
        needed: Positions that its longest sample has.
        place: The line that makes batches, where one looks like padding.
    """

    path: str
    kind: str
    samples: int
    widths: tuple[int, ...]
    needed: tuple[int, ...]
    place: CallPlace | None = None

    @property
    def frac(self) -> float:
        """The share of the positions that no sample of their batch needs.

        >>> round(Padding("0", "ids", 2, (10, 10), (6, 8)).frac, 6)
        0.3
        """
        return 1.0 - sum(self.needed) / sum(self.widths)


def padding(notes: Iterable[Note]) -> tuple[Padding, ...]:
    """Return what was noted of padding; empty where there was none, or no look."""
    return last_noted(notes, PADDING_NOTE, tuple[Padding, ...]) or ()
