"""Notes rows that are looked up by indexing (`table[indices]`), where a gradient goes back."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from lightning_gpuprof.probes.looks.call_places import first_shown
from lightning_gpuprof.probes.looks.each_batch import in_each
from lightning_gpuprof.probes.stacks.stack_lines import Place
from lightning_gpuprof.records.lookups import IndexedLookup

INDEX = "__getitem__"
MOST_LOOKUPS = 3


@dataclass
class Lookup:
    """One such call."""

    place: Place
    rows: int
    indices: int
    width: int


@dataclass
class IndexedRows:
    """What one batch looks up; `seen` is told of each function."""

    lookups: list[Lookup] = field(default_factory=list)

    def seen(self, name: str, args: Any, results: Sequence[Tensor], place: Place | None) -> None:
        """Note a call that picks rows of a tensor by a tensor of numbers.

        What a mask picks it picks once, so its gradient has nothing to add up.
        """
        if name != INDEX or place is None or not results[0].requires_grad:
            return
        table, at = args[0], args[1] if isinstance(args[1], tuple) else (args[1],)
        numbers = [one for one in at if isinstance(one, Tensor) and _counts(one)]
        if numbers and isinstance(table, Tensor) and results[0].numel():
            indices = max(one.numel() for one in numbers)
            rows, width = table.numel(), results[0].numel() // max(1, indices)
            self.lookups.append(Lookup(place, rows // max(1, width), indices, width))


def indexed_lookups(batches: Sequence[IndexedRows]) -> tuple[IndexedLookup, ...]:
    """Return what every batch looks up, by its line, with most numbers first."""
    found = [
        IndexedLookup(
            rows=every[-1][0].rows,
            indices=sum(one.indices for one in every[-1]),
            width=every[-1][0].width,
            places=first_shown([every[-1][0].place]),
        )
        for every in in_each([one.lookups for one in batches], lambda one: one.place)
    ]
    return tuple(sorted(found, key=lambda one: -one.indices * one.width)[:MOST_LOOKUPS])


def _counts(index: Tensor) -> bool:
    return not (index.is_floating_point() or index.dtype.itemsize == 1) and index.ndim > 0
