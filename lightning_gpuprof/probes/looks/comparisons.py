"""Follows comparisons of all pairs of values until little is made of them: any, which, how many."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import NamedTuple

import torch
from torch import Tensor
from typing_extensions import override

from lightning_gpuprof.probes.looks.broadcasts import GROWS, LEAST_NUMBERS, shared_dims
from lightning_gpuprof.probes.looks.call_places import first_shown
from lightning_gpuprof.probes.looks.each_batch import in_each
from lightning_gpuprof.probes.looks.on_data import OnData
from lightning_gpuprof.probes.looks.wide_results import WidePair, WideResults
from lightning_gpuprof.records.lookups import Compared

_EQUAL = frozenset({"eq", "__eq__", "ne", "__ne__", "not_equal"})
_ORDER = frozenset(
    """lt __lt__ le __le__ gt __gt__ ge __ge__ less less_equal greater greater_equal""".split()
)
_SAME = frozenset(
    """to type int long float double half byte bool char short type_as contiguous
    __invert__ logical_not bitwise_not""".split()
)
"""Still one result for each pair."""
_KINDS = {
    "any": "any",
    "all": "any",
    "argmax": "which",
    "max": "which",
    "amax": "any",
    "nonzero": "which",
    "sum": "count",
    "count_nonzero": "count",
}


class _Wide(NamedTuple):
    spread: tuple[int, ...]
    """Dimensions, from behind, that one of the two tensors alone has."""
    pair: "_Pairs"


@dataclass
class _Pairs(WidePair):
    orders: bool
    compared: int
    kind: str | None = None
    among: int = 0


@dataclass
class Comparisons(WideResults[_Wide]):
    """What is compared pair by pair in one batch; `seen` is told of each function on data."""

    pairs: list[_Pairs] = field(default_factory=list)

    @override
    def _after(self, wide: _Wide, call: OnData) -> _Wide | None:
        return wide if call.name in _SAME else None

    @override
    def _ends(self, wide: _Wide, call: OnData, source: Tensor) -> None:
        pairs = wide.pair
        kind, among = _KINDS.get(call.name), _over(call, source, wide.spread)
        if kind is None or not among or pairs.kind is not None:
            pairs.needed = True
        if pairs.orders and kind != "count":
            pairs.needed = True  # the first that is larger by its place: no value to look up
        pairs.kind, pairs.among = kind, among

    @override
    def _begins(self, call: OnData) -> None:
        name, given, result, place = call.name, call.given, call.result, call.place
        if name not in _EQUAL | _ORDER or len(given) != 2 or place is None:
            return
        whole: torch.Size = torch.broadcast_shapes(*(one.shape for one in given))  # type: ignore[no-untyped-call]
        least = max(LEAST_NUMBERS, GROWS * max(one.numel() for one in given))
        if result.shape != whole or prod(whole) < least:
            return
        if shared_dims(given, whole):
            return  # each is compared within its own sample alone
        pairs = _Pairs([place], call.taken_ns, name in _ORDER, prod(whole))
        self._wide[result] = _Wide(_spread(given, whole), pairs)
        self.pairs.append(pairs)


def compared(batches: Sequence[Comparisons]) -> tuple[Compared, ...]:
    """Return what is compared with all of another tensor, by its lines, the longest first.

    Args:
        batches: What was seen in each batch; times are of the faster one.
    """
    known = [
        [pairs for pairs in batch.pairs if pairs.kind is not None and not pairs.needed]
        for batch in batches
    ]
    found = [
        Compared(
            kind=str(every[-1][0].kind),
            orders=every[-1][0].orders,
            taken_ns=min(sum(pairs.taken_ns for pairs in ones) for ones in every),
            calls=len(every[-1]),
            compared=sum(pairs.compared for pairs in every[-1]),
            among=min(pairs.among for pairs in every[-1]),
            places=first_shown(every[-1][0].places),
        )
        for every in in_each(known, lambda pairs: (pairs.kind, pairs.orders, *pairs.places))
    ]
    return tuple(sorted(found, key=lambda one: -one.taken_ns))


def _spread(given: Sequence[Tensor], whole: Sequence[int]) -> tuple[int, ...]:
    """Return the dimensions, from behind, that one of two tensors alone has.

    >>> a, b = torch.zeros(5, 7, 1), torch.zeros(9)
    >>> _spread((a, b), (a == b).shape)
    (-1, -2, -3)
    """
    sizes = [
        [one.shape[-dim] if dim <= one.ndim else 1 for one in given]
        for dim in range(1, len(whole) + 1)
    ]
    return tuple(-dim for dim, both in enumerate(sizes, 1) if min(both) == 1 < max(both))


def _over(call: OnData, wide: Tensor, spread: Sequence[int]) -> int:
    """Return how many comparisons are made one; 0 where not along one tensor's own dimension."""
    if call.name == "nonzero":
        return max(wide.shape[dim] for dim in spread) if spread else 0
    dim = call.argument("dim", 1, None)
    if not isinstance(dim, int):
        return 0
    behind = dim if dim < 0 else dim - wide.ndim
    return int(wide.shape[behind]) if behind in spread else 0
