"""Follows rows of zeros with a one to a product that sums with them what belongs together."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from lightning_gpuprof.probes.looks.call_places import first_shown
from lightning_gpuprof.probes.looks.each_batch import in_each
from lightning_gpuprof.probes.looks.lookups import SAME
from lightning_gpuprof.probes.looks.on_data import OnData
from lightning_gpuprof.probes.looks.tensor_values import readable, version
from lightning_gpuprof.probes.stacks.stack_lines import Place
from lightning_gpuprof.records.lookups import OneHotSum

_EQUAL = frozenset({"eq", "__eq__"})
_SAME = SAME | {"t", "int", "long", "__getitem__"}
_PRODUCTS = frozenset({"matmul", "mm", "bmm", "__matmul__", "__rmatmul__"})
LEAST_CLASSES = 2


@dataclass
class Rows:
    """Rows of zeros with a one, and what was summed with them."""

    places: list[Place]
    classes: int
    made_ns: int
    sum_ns: int = 0
    summed: int = 0
    trained: bool = False
    shared: bool = False
    """Something else needs the rows, too."""


@dataclass(frozen=True)
class _Known:
    rows: Rows
    version: int
    stride: int
    """From one class to the next: views keep it, however they turn the rows."""


@dataclass
class OneHotSums:
    """What becomes of such rows in one batch; `seen` is told of each function on data."""

    rows: list[Rows] = field(default_factory=list)
    _known: Any = field(default_factory=WeakIdKeyDictionary)
    _counted: Any = field(default_factory=WeakIdKeyDictionary)

    def counts(self, results: Iterable[Tensor]) -> None:
        """Note results of `arange`: a device's are not read."""
        for one in results:
            self._counted[one] = version(one)

    def seen(self, call: OnData) -> None:
        """Note what makes such rows, or what becomes of them."""
        if call.name == "one_hot":
            self._begins(call, call.result.ndim - 1)
            return
        if call.name in _EQUAL:
            axis = self._axis_of_classes(call)
            if axis is not None:
                self._begins(call, axis)
        sources = [one for one in call.given if self._of(one) is not None]
        source = sources[0] if sources else None
        known = None if source is None else self._of(source)
        if source is None or known is None:
            return
        rows, axis = known.rows, _axis(source, known)
        if version(source) != known.version:
            rows.shared = True  # written to since
        elif axis is not None and self._goes_on(call, source, axis, known):
            rows.made_ns += call.taken_ns
        elif axis is not None and len(sources) == 1 and _sums(call, source, axis):
            rows.sum_ns += call.taken_ns
            rows.summed += source.numel() // rows.classes
            rows.trained = rows.trained or call.result.requires_grad
        else:
            rows.shared = True
        call.add_place(rows.places)

    def used(self, given: Iterable[Any]) -> None:
        """Nothing: to ask for a view (`rows.T`) or a shape takes nothing away from the rows."""

    def _begins(self, call: OnData, axis: int) -> None:
        result = call.result
        if call.place is None or not result.numel() or result.shape[axis] < LEAST_CLASSES:
            return
        self.rows.append(Rows([call.place], result.shape[axis], call.taken_ns))
        self._known[result] = _Known(self.rows[-1], version(result), result.stride(axis))

    def _goes_on(self, call: OnData, source: Tensor, axis: int, known: _Known) -> bool:
        """Follow the result; tell whether it is the same rows still."""
        result = call.result
        same = call.name in _SAME and source is call.given[0]
        if not same or result.numel() != source.numel():
            return False
        if self._of(result) is not None:  # a view
            return True
        if result.shape != source.shape:
            return False
        self._known[result] = _Known(known.rows, version(result), result.stride(axis))
        return True

    def _of(self, tensor: Tensor) -> _Known | None:
        """Return what is known of a tensor, or of the one that it is a whole view of."""
        known: _Known | None = self._known.get(tensor)
        base = tensor._base if known is None and tensor._is_view() else None
        if base is not None and base.numel() == tensor.numel():
            known = self._known.get(base)
        return known

    def _axis_of_classes(self, call: OnData) -> int | None:
        """Return along which dimension numbers are compared with 0, 1, 2, ...; None without it."""
        result = call.result
        if len(call.given) != 2 or any(one.is_floating_point() for one in call.given):
            return None
        for numbers, other in (call.given, call.given[::-1]):
            dims = [dim for dim in range(1, numbers.ndim + 1) if numbers.shape[-dim] > 1]
            if len(dims) != 1:
                continue
            (dim,) = dims
            alone = other.ndim < dim or other.shape[-dim] == 1
            if alone and other.numel() > 1 and self._all_differ(numbers):
                return result.ndim - dim
        return None

    @torch.no_grad()
    def _all_differ(self, numbers: Tensor) -> bool:
        """Tell whether numbers are counted up, as `arange` gives them."""
        if readable(numbers):
            flat = numbers.flatten()
            return bool((flat[1:] - flat[:-1] == 1).all())
        base = numbers if numbers in self._counted else numbers._base
        counted = None if base is None else self._counted.get(base)
        return base is not None and counted == version(base)


def _axis(rows: Tensor, known: _Known) -> int | None:
    """Return which dimension of rows is that of the classes; None where it is none any more."""
    found = [
        dim
        for dim, (size, stride) in enumerate(zip(rows.shape, rows.stride(), strict=True))
        if size == known.rows.classes and stride == known.stride
    ]
    return found[0] if len(found) == 1 else None


def _sums(call: OnData, source: Tensor, classes: int) -> bool:
    """Tell whether a function sums along another dimension of rows than that of the classes."""
    if call.name == "einsum":
        return _einsum_sums(call, source, classes)
    if call.name not in _PRODUCTS or len(call.given) != 2 or source.ndim < 2:
        return False
    first, _ = call.given[::-1] if call.name == "__rmatmul__" else call.given
    if source is first:
        return classes == source.ndim - 2
    return classes == source.ndim - 1 and first.ndim > 1


def _einsum_sums(call: OnData, source: Tensor, classes: int) -> bool:
    rule = call.args[0] if call.args else None
    if not isinstance(rule, str) or rule.count("->") != 1 or "." in rule or len(call.given) != 2:
        return False
    into, out = rule.replace(" ", "").split("->")
    letters = into.split(",")
    own = 0 if source is call.given[0] else 1
    if len(letters) != 2 or len(letters[own]) != source.ndim:
        return False
    summed = (set(letters[0]) & set(letters[1])) - set(out)
    label = letters[own][classes]
    return bool(summed) and label in out and label not in letters[1 - own]


def one_hot_sums(batches: Sequence[OneHotSums]) -> tuple[OneHotSum, ...]:
    """Return what is summed by products with such rows, by their lines.

    Args:
        batches: What was seen in each batch; times are of the faster one.
    """
    summed = [[rows for rows in batch.rows if rows.sum_ns] for batch in batches]
    return tuple(
        OneHotSum(
            classes=every[-1][0].classes,
            summed=sum(rows.summed for rows in every[-1]),
            made_ns=min(sum(rows.made_ns for rows in ones if not rows.shared) for ones in every),
            sum_ns=min(sum(rows.sum_ns for rows in ones) for ones in every),
            trained=any(rows.trained for rows in every[-1]),
            places=first_shown(every[-1][0].places),
        )
        for every in in_each(summed, lambda rows: rows.places[0])
    )
