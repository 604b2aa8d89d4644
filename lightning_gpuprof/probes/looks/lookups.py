"""Follows rows of zeros with a one (`one_hot`) to a layer that multiplies them by its weights."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from lightning_gpuprof.probes.looks.call_places import first_shown
from lightning_gpuprof.probes.looks.each_batch import in_each
from lightning_gpuprof.probes.looks.on_data import OnData, followed
from lightning_gpuprof.probes.looks.tensor_values import version
from lightning_gpuprof.probes.stacks.stack_lines import Place
from lightning_gpuprof.records.lookups import OneHotLookup

_PRODUCTS = frozenset({"linear", "matmul", "mm", "__matmul__"})
SAME = frozenset(
    """to type type_as float double half bfloat16 cuda cpu contiguous clone detach view view_as
    reshape reshape_as flatten unflatten squeeze unsqueeze transpose permute movedim swapaxes
    """.split()
)
"""These leave rows of zeros with a one what they are; smoothing, dropout or a sum do not."""


@dataclass
class Rows:
    """One call of `one_hot`, and what its rows were given to."""

    places: list[Place]
    classes: int
    indices: int
    made_ns: int
    """Making the rows, and giving them another type."""
    layer_ns: int = 0
    width: int = 0
    shared: bool = False
    """Something else needs the rows, too."""


@dataclass
class Lookups:
    """What becomes of the rows of one batch; `seen` is told of each function on data.

    Args:
        weights: Numbers (`id`) of the model's parameters.
    """

    weights: set[int]
    rows: list[Rows] = field(default_factory=list)
    _known: Any = field(default_factory=WeakIdKeyDictionary)

    def seen(self, call: OnData) -> None:
        """Note what makes such rows, or what becomes of them."""
        name, given, result = call.name, call.given, call.result
        if name == "one_hot" and call.place is not None and result.numel():
            classes = result.shape[-1]
            indices = result.numel() // classes
            self.rows.append(Rows([call.place], classes, indices, call.taken_ns))
            self._known[result] = (self.rows[-1], version(result))
            return
        source = next((one for one in given if one in self._known), None)
        if source is None:
            return
        rows, was = self._known[source]
        if version(source) != was:  # written to since: rows of zeros with a one no more
            rows.shared = True
            del self._known[source]
        elif name in SAME and _same_rows(source, result, rows.classes):
            rows.made_ns += call.taken_ns
            self._known[result] = (rows, version(result))
        elif (
            name in _PRODUCTS
            and source is given[0]
            and self.weights.intersection(map(id, given[1:2]))
            and given[1].ndim > 1
        ):
            rows.layer_ns += call.taken_ns
            rows.width = result.shape[-1]
        else:
            rows.shared = True
        call.add_place(rows.places)

    def used(self, given: Iterable[Any]) -> None:
        """Note that something is done with tensors of which no function on data tells."""
        for rows, _ in followed(given, self._known):
            rows.shared = True


def one_hot_lookups(batches: Sequence[Lookups]) -> tuple[OneHotLookup, ...]:
    """Return the rows that are multiplied by weights, by their lines.

    Args:
        batches: What was seen in each batch; times are of the faster one.
    """
    multiplied = [[rows for rows in batch.rows if rows.width] for batch in batches]
    return tuple(
        OneHotLookup(
            classes=every[-1][0].classes,
            width=every[-1][0].width,
            indices=sum(rows.indices for rows in every[-1]),
            made_ns=min(sum(rows.made_ns for rows in ones if not rows.shared) for ones in every),
            layer_ns=min(sum(rows.layer_ns for rows in ones) for ones in every),
            places=first_shown(every[-1][0].places),
        )
        for every in in_each(multiplied, lambda rows: rows.places[0])
    )


def _same_rows(given: Tensor, result: Tensor, classes: int) -> bool:
    """Tell whether each row is still one of all classes."""
    return result.ndim > 0 and result.shape[-1] == classes and result.numel() == given.numel()
