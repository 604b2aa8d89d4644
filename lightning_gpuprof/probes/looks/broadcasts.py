"""Follows what torch's functions write out for each pair of rows until it is summed up again."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import NamedTuple

import torch
from torch import Tensor
from typing_extensions import override

from lightning_gpuprof.probes.looks.call_places import first_shown
from lightning_gpuprof.probes.looks.each_batch import in_each
from lightning_gpuprof.probes.looks.on_data import OnData
from lightning_gpuprof.probes.looks.wide_results import WidePair, WideResults
from lightning_gpuprof.records.function_calls import Broadcast

GROWS = 4
"""What is written out has so many times the numbers of the larger tensor at least."""
LEAST_NUMBERS = 1 << 14
"""Smaller ones stay in the caches, and are over in microseconds."""
_FORMS = {
    "sub": "difference",
    "__sub__": "difference",
    "__rsub__": "difference",
    "rsub": "difference",
    "subtract": "difference",
    "mul": "product",
    "__mul__": "product",
    "__rmul__": "product",
    "multiply": "product",
    "mse_loss": "squares",
    "l1_loss": "absolute",
}
_WHOLE = {"cosine_similarity": "cosine", "pairwise_distance": "distance"}
"""These write it out inside."""
_SCALES = frozenset({"mul", "__mul__", "__rmul__", "div", "__truediv__", "true_divide"})
_SQUARES = frozenset({"pow", "__pow__", "square", "mul", "__mul__"})
_ABSOLUTES = frozenset({"abs", "absolute", "__abs__"})
_SUMS = frozenset({"sum", "mean"})
_NORMS = frozenset({"norm", "linalg_norm", "linalg_vector_norm", "vector_norm", "frobenius_norm"})


class _Wide(NamedTuple):
    """A result that was written out, and what it is so far."""

    kind: str
    shared: tuple[int, ...]
    """Its dimensions that both tensors have."""
    pair: "_Pair"


@dataclass
class _Pair(WidePair):
    wide_bytes: int
    given_bytes: int
    trained: bool = False
    kind: str | None = None
    """What it turned out to be once it was summed up."""
    summed: int = 0


@dataclass
class Broadcasts(WideResults[_Wide]):
    """What is written out in one batch; `seen` is told of each function on data.

    A pair is needed, too, where no product of matrices does what is done with it.
    """

    pairs: list[_Pair] = field(default_factory=list)

    @override
    def _after(self, wide: _Wide, call: OnData) -> _Wide | None:
        kind = _after(wide.kind, call)
        return None if kind is None else wide._replace(kind=kind)

    @override
    def _ends(self, wide: _Wide, call: OnData, source: Tensor) -> None:
        pair = wide.pair
        kind, summed = _summed(wide.kind, call.name), _over(call, source, wide.shared)
        if kind is None or not summed or pair.kind is not None:
            pair.needed = True
        pair.kind, pair.summed = kind, summed

    @override
    def _begins(self, call: OnData) -> None:
        name, given, result, place = call.name, call.given, call.result, call.place
        if len(given) != 2 or (name not in _FORMS and name not in _WHOLE):
            return
        if "alpha" in call.kwargs:
            return  # a - alpha * b
        whole: torch.Size = torch.broadcast_shapes(*(one.shape for one in given))  # type: ignore[no-untyped-call]
        numbers, shared = prod(whole), shared_dims(given, whole)
        least = max(LEAST_NUMBERS, GROWS * max(one.numel() for one in given))
        if numbers < least or not shared or place is None or not result.is_floating_point():
            return
        pair = _Pair(
            places=[place],
            wide_bytes=numbers * result.element_size(),
            given_bytes=sum(one.nbytes for one in given),
            taken_ns=call.taken_ns,
            trained=result.requires_grad,
        )
        if name in _FORMS and result.shape == whole:
            self._wide[result] = _Wide(_FORMS[name], shared, pair)
        elif name in _WHOLE and -1 in shared and _by_row(call, len(whole)):
            pair.kind, pair.summed = _WHOLE[name], whole[-1]
        self.pairs.append(pair)


def broadcasts(batches: Iterable[Broadcasts]) -> tuple[Broadcast, ...]:
    """Return what is written out, by its lines, the longest first; times are of the faster batch.

    Args:
        batches: What was seen in each batch.
    """
    known = [
        [pair for pair in batch.pairs if pair.kind is not None and not pair.needed]
        for batch in batches
    ]
    found = [
        Broadcast(
            kind=str(every[-1][0].kind),
            taken_ns=min(sum(pair.taken_ns for pair in pairs) for pairs in every),
            calls=len(every[-1]),
            wide_bytes=max(pair.wide_bytes for pair in every[-1]),
            given_bytes=max(pair.given_bytes for pair in every[-1]),
            summed=min(pair.summed for pair in every[-1]),
            trained=any(pair.trained for pair in every[-1]),
            places=first_shown(every[-1][0].places),
        )
        for every in in_each(known, lambda pair: (pair.kind, *pair.places))
    ]
    return tuple(sorted(found, key=lambda one: -one.taken_ns))


def shared_dims(given: Sequence[Tensor], whole: Sequence[int]) -> tuple[int, ...]:
    """Return the dimensions, from behind, in which neither of two tensors is spread out.

    >>> a, b = torch.zeros(5, 7, 1, 3), torch.zeros(5, 1, 9, 3)
    >>> shared_dims((a, b), (a - b).shape)
    (-1, -4)
    """
    dims = range(1, 1 + min(one.ndim for one in given))
    return tuple(-dim for dim in dims if all(one.shape[-dim] == whole[-dim] > 1 for one in given))


def _by_row(call: OnData, ndim: int) -> bool:
    """Tell whether one of `_WHOLE` gives a number for each pair of rows, and the usual one.

    >>> cosine = OnData("cosine_similarity", ("a", "b"), {}, (), torch.zeros(1), 0, None)
    >>> _by_row(cosine, 3), _by_row(cosine._replace(name="pairwise_distance", args=()), 3)
    (False, True)
    """
    if call.name == "cosine_similarity":
        return call.argument("dim", 2, 1) in (-1, ndim - 1)
    return bool(call.argument("p", 2, 2) == 2 and not call.argument("keepdim", 4, False))


def _after(kind: str, call: OnData) -> str | None:
    """Return what a kind is after a function by element; None where no pair's form is known."""
    name, args, given = call.name, call.args, call.given
    if name in _SCALES and len(given) == 1:
        return kind
    if kind == "difference" and name in _ABSOLUTES:
        return "absolute"
    if kind != "difference" or name not in _SQUARES:
        return None
    if "pow" in name:
        # A tensor's value would be waited for on a GPU, and may be trained.
        number = len(args) > 1 and isinstance(args[1], (int, float))
        return "squares" if number and args[1] == 2 else None
    alone = name == "square" or (len(given) == 2 and given[0] is given[1])
    return "squares" if alone else None


def _summed(kind: str, name: str) -> str | None:
    if kind in ("squares", "absolute", "product") and name in _SUMS:
        return kind
    return "distance" if kind == "difference" and name in _NORMS else None


def _over(call: OnData, wide: Tensor, shared: Sequence[int]) -> int:
    """Return how many numbers are summed up for each result; 0 where it is not what is shared."""
    name, args, kwargs = call.name, call.args, call.kwargs
    dim = kwargs.get("dim", kwargs.get("axis"))
    if dim is None:
        at = 1 if name in _SUMS else 2
        dim = args[at] if len(args) > at else None
    if name in _NORMS:
        order = kwargs.get("p", kwargs.get("ord", args[1] if len(args) > 1 else None))
        if order not in (None, 2, "fro"):
            return 0
    dims = [dim] if isinstance(dim, int) else list(dim or ())
    if len(dims) != 1 or not isinstance(dims[0], int):
        return 0
    behind = dims[0] if dims[0] < 0 else dims[0] - wide.ndim
    return int(wide.shape[behind]) if behind in shared else 0
