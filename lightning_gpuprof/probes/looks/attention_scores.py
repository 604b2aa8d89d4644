"""Follows products of rows to a softmax and the product after it: attention, step by step."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch.utils.weak import WeakIdKeyDictionary

from lightning_gpuprof.probes.looks.call_places import first_shown
from lightning_gpuprof.probes.looks.each_batch import in_each
from lightning_gpuprof.probes.looks.lookups import SAME
from lightning_gpuprof.probes.looks.on_data import OnData, followed
from lightning_gpuprof.probes.stacks.stack_lines import Place
from lightning_gpuprof.records.attention import WrittenAttention

LEAST_NUMBERS = 1 << 14
"""Fewer scores are over in microseconds."""
_PRODUCTS = frozenset({"matmul", "bmm", "__matmul__", "einsum"})
_SOFTMAX = frozenset({"softmax", "_softmax"})
_MASKS = frozenset({"masked_fill", "masked_fill_", "where"})
_ADDS = frozenset({"add", "add_", "__add__", "__radd__", "__iadd__", "sub", "sub_", "__sub__"})


@dataclass
class Written:
    """The scores of one attention."""

    places: list[Place]
    numbers: int
    number_bytes: int
    product_ns: int
    between_ns: int = 0
    normed: bool = False
    masked: bool = False
    drops: bool = False
    trained: bool = False
    done: bool = False
    needed: bool = False
    """Something else is done with the scores or the weights."""


@dataclass
class AttentionScores:
    """The attention of one batch; `seen` is told of each function on data."""

    written: list[Written] = field(default_factory=list)
    _known: Any = field(default_factory=WeakIdKeyDictionary)

    def seen(self, call: OnData) -> None:
        """Note a product that may make scores, or what becomes of one's."""
        scores = next(followed(call.given, self._known), None)
        if scores is not None:
            self._goes_on(scores, call)
        elif _makes_scores(call):
            assert call.place is not None
            result = call.result
            one = Written([call.place], result.numel(), result.element_size(), call.taken_ns)
            self.written.append(one)
            self._known[result] = one

    def used(self, given: Iterable[Any]) -> None:
        """Note that something is done with tensors of which no function on data tells."""
        for scores in followed(given, self._known):
            scores.needed = True

    def _goes_on(self, scores: Written, call: OnData) -> None:
        name, result = call.name, call.result
        if scores.normed and name in _PRODUCTS and len(call.given) == 2:
            weights, values = call.given
            other = weights not in self._known or values.ndim != result.ndim
            scores.needed = scores.needed or scores.done or other
            scores.product_ns += call.taken_ns
            scores.done, scores.trained = True, result.requires_grad
        elif result.numel() != scores.numbers or scores.done:
            scores.needed = True
        elif scores.normed and name not in SAME and "dropout" not in name:
            scores.needed = True  # of weights, fused attention drops some, and does no more
        else:
            if name in _SOFTMAX:
                along = call.argument("dim", 1, None)
                scores.needed |= along not in (-1, result.ndim - 1)
                scores.normed = True
            scores.drops = scores.drops or "dropout" in name
            added = name in _ADDS and any(one.numel() > 1 for one in call.given[1:])
            scores.masked = scores.masked or name in _MASKS or added
            scores.between_ns += call.taken_ns
            self._known[result] = scores
        call.add_place(scores.places)


def written_attention(batches: Sequence[AttentionScores]) -> tuple[WrittenAttention, ...]:
    """Return the attention in each batch whose scores nothing else needs, by its line.

    Args:
        batches: What was seen in each batch; times are of the faster one.
    """
    found = [[one for one in batch.written if one.done] for batch in batches]
    return tuple(
        WrittenAttention(
            calls=len(every[-1]),
            scores=max(one.numbers for one in every[-1]),
            score_bytes=max(one.numbers * one.number_bytes for one in every[-1]),
            between_ns=min(sum(one.between_ns for one in ones) for ones in every),
            product_ns=min(sum(one.product_ns for one in ones) for ones in every),
            masked=any(one.masked for one in every[-1]),
            drops=any(one.drops for one in every[-1]),
            trained=any(one.trained for one in every[-1]),
            places=first_shown(every[-1][0].places),
        )
        for every in in_each(found, lambda one: one.places[0])
        if not any(one.needed for ones in every for one in ones)
    )


def _makes_scores(call: OnData) -> bool:
    """Tell whether a call may be of queries and keys: a product of two tensors in batches."""
    return (
        call.name in _PRODUCTS
        and call.place is not None
        and len(call.given) == 2
        and call.result.ndim >= 3
        and call.result.numel() >= LEAST_NUMBERS
    )
