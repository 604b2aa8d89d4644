"""Numbers the values of a batch's tensors: equal functions of equal values give equal values.

As compilers find common subexpressions, by value numbering: no values are read.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from inspect import isroutine
from itertools import count
from types import FrameType
from typing import Any
from weakref import ref

import torch
from torch import Tensor

from lightning_gpuprof.probes.looks.call_places import first_shown, shown
from lightning_gpuprof.probes.looks.each_batch import in_each
from lightning_gpuprof.probes.looks.tensor_values import is_plain, version
from lightning_gpuprof.probes.looks.torch_names import is_in_place, is_random
from lightning_gpuprof.probes.stacks.stack_lines import Place, own_lines
from lightning_gpuprof.records.function_calls import RepeatedWork

_PLAIN = {int, float, bool, str, bytes, complex, type(None), type(...)}
_PLAIN |= {torch.dtype, torch.device, torch.layout, torch.memory_format}
_MAY_DRAW = frozenset(
    """multi_head_attention_forward scaled_dot_product_attention lstm gru rnn_tanh rnn_relu rrelu
    gumbel_softmax fractional_max_pool2d fractional_max_pool3d""".split()
)
"""They have a dropout of their own, or draw."""
_HANDS_OUT = frozenset("numpy __array__ __dlpack__ data_ptr storage untyped_storage set_".split())
"""Whoever has these may write into the tensor's memory, and no version tells."""
_ATTRIBUTE = ("__get__", "__set__")
_WRITTEN, _NEW = -1, -2
"""Versions of a tensor that may be written to unseen, and of one not seen before."""
_UNKNOWN = (lambda: None, 0, _NEW)
_MOST_PARTS = 64


@dataclass
class Computed:
    """A function of certain values, and each time that it was called."""

    numbers: tuple[int, ...]
    trained: bool
    taken_ns: list[int] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)
    """The lines, where they are told."""
    through: dict[Place, None] = field(default_factory=dict)
    """All lines of the program that it was called through again."""
    written: bool = False
    """A result was written to, so that each call gives one of its own."""

    @property
    def again_ns(self) -> int:
        """Time of all times but the longest."""
        return sum(self.taken_ns) - max(self.taken_ns)


@dataclass
class Values:
    """The values of one batch; `seen` is told of each function."""

    computed: dict[Any, Computed] = field(default_factory=dict)
    _known: dict[int, tuple[Callable[[], Any], int, int]] = field(default_factory=dict)
    """By `id`: the tensor, held weakly, its number, and its version then."""
    _made: dict[int, Computed] = field(default_factory=dict)
    """By number: of what function a tensor is the result."""
    _next: Iterator[int] = field(default_factory=lambda: count(1))

    def seen(
        self, func: Any, name: str, args: Any, kwargs: Any, results: list[Tensor], taken_ns: int
    ) -> Computed | None:
        """Number the results of a function, and return what is known of it; None of a new one."""
        if name in _HANDS_OUT or (name in _ATTRIBUTE and _of_data(func)):
            for one in args[:1]:
                self._known[id(one)] = ref(one), 0, _WRITTEN
            return None
        new = _gives_new(name)
        if is_in_place(name):
            self._write(args)
        if new and args and isinstance(args[0], list | tuple):
            # Of a fused update of weights no version tells.
            for one in args[0]:
                self._known.pop(id(one), None)
        if not results:
            return None
        new = new or kwargs.get("out") is not None
        key = None if new else self._key(func, args, kwargs)
        if key is None:
            for one in results:
                self._set(one, next(self._next))
            return None
        # Without gradients, or in another type, it is something else.
        key = (key, *((one.requires_grad, one.dtype) for one in results))
        found = self.computed.get(key)
        if found is None:
            numbers = tuple(next(self._next) for _ in results)
            trained = any(one.requires_grad for one in results)
            found = self.computed[key] = Computed(numbers, trained)
            self._made.update(dict.fromkeys(numbers, found))
        for one, number in zip(results, found.numbers, strict=True):
            self._set(one, number)
        found.taken_ns.append(taken_ns)
        return found

    def _write(self, args: Any) -> None:
        """Note that a function's result is written to, or a part of it."""
        for one in args[:1]:
            for each in (one, one._base) if is_plain(one) else ():
                made = self._made.get(self._of(each)[0])
                if made is not None:
                    made.written = True

    def _set(self, tensor: Tensor, number: int) -> None:
        """Number a tensor, unless it was there before (`x.contiguous()`, `view._base`)."""
        _, was = self._of(tensor)
        if was not in (_WRITTEN, version(tensor)):
            self._known[id(tensor)] = ref(tensor), number, version(tensor)

    def _of(self, tensor: Tensor) -> tuple[int, int]:
        """Return a tensor's number, and the version that had it."""
        same, number, was = self._known.get(id(tensor), _UNKNOWN)
        return (number, was) if same() is tensor else (0, _NEW)

    def _number(self, tensor: Tensor) -> int:
        number, was = self._of(tensor)
        if was == _WRITTEN or tensor.is_inference():
            raise _Opaque  # no version tells of what is written to it
        if was == version(tensor):
            return number
        if not is_plain(tensor):
            raise _Opaque
        number = next(self._next)
        self._known[id(tensor)] = ref(tensor), number, version(tensor)
        return number

    def _key(self, func: Any, args: Any, kwargs: Any) -> Any:
        try:
            named = [(name, self._part(one)) for name, one in kwargs.items()]
            return (func, *map(self._part, args), *named)
        except _Opaque:
            return None

    def _part(self, value: Any) -> Any:
        """Return what tells an argument apart: of a tensor its number, else its type, too."""
        kind = type(value)
        if kind in _PLAIN:
            return kind, value
        if isinstance(value, Tensor):
            return self._number(value)
        if kind is slice:
            return (slice, *map(self._part, (value.start, value.stop, value.step)))
        if isinstance(value, list | tuple) and len(value) <= _MOST_PARTS:
            return (kind, *map(self._part, value))
        if isroutine(value):
            return kind, value
        raise _Opaque


@lru_cache(maxsize=1024)
def _gives_new(name: str) -> bool:
    """Tell whether what a function gives is another each time, or is written into what was."""
    return is_random(name) or is_in_place(name) or name in _MAY_DRAW or "empty" in name


class _Opaque(Exception):
    """An argument whose sameness cannot be told."""


def _of_data(func: Any) -> bool:
    return getattr(getattr(func, "__self__", None), "__name__", "") == "data"


def told(found: Computed, place: Place, frame: FrameType) -> None:
    """Note the line of a function that computes what is told; of one called again, its callers."""
    if len(found.taken_ns) > 1:
        found.through.update(dict.fromkeys(own_lines(frame)))
    if place not in found.places:
        found.places.append(place)


def repeated_work(batches: Sequence[Values]) -> tuple[RepeatedWork, ...]:
    """Return what functions of the program compute again, the longest first.

    Args:
        batches: What was seen in each batch; times are of the faster one.
    """
    again = [
        [
            one
            for one in batch.computed.values()
            if one.places and not one.written and len(one.taken_ns) > 1
        ]
        for batch in batches
    ]
    found = [
        min((_work(ones) for ones in every), key=lambda one: one.taken_ns)
        for every in in_each(again, lambda one: (one.places[-1][0], one.places[-1][2]))
    ]
    return tuple(sorted(found, key=lambda one: -one.taken_ns))


def _work(ones: list[Computed]) -> RepeatedWork:
    lines: Counter[Place] = Counter()
    for one in ones:
        lines.update(dict.fromkeys(one.places, one.again_ns))
    return RepeatedWork(
        taken_ns=sum(one.again_ns for one in ones),
        trained_ns=sum(one.again_ns for one in ones if one.trained),
        times=max(len(one.taken_ns) for one in ones),
        places=first_shown(place for place, _ in lines.most_common()),
        through=tuple(shown(place) for place in dict.fromkeys(p for o in ones for p in o.through)),
    )
