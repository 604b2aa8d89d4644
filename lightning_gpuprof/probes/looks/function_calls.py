"""Watches torch's functions for what a step computes without its batch, and module by module."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import islice
from types import FrameType
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import Module
from torch.utils import checkpoint as checkpoint_file
from torch.utils.weak import WeakIdKeyDictionary

from lightning_gpuprof.probes.latency.latency import tensors_in
from lightning_gpuprof.probes.looks.broadcasts import Broadcasts
from lightning_gpuprof.probes.looks.cells import CELLS, Cells
from lightning_gpuprof.probes.looks.function_inputs import (
    called_by_own,
    given_plain,
    gives_values,
)
from lightning_gpuprof.probes.looks.function_names import in_place, is_random
from lightning_gpuprof.probes.looks.lookups import Lookups
from lightning_gpuprof.probes.looks.on_data import OnData
from lightning_gpuprof.probes.looks.scores import Scores
from lightning_gpuprof.probes.looks.tensor_values import digest_of, is_plain, version
from lightning_gpuprof.probes.stacks.stack_lines import (
    Place,
    outwards,
    own_line,
    own_lines,
)

LAYERS = frozenset(
    """embedding linear conv1d conv2d conv3d layer_norm batch_norm group_norm""".split()
)
PRODUCTS = frozenset({"matmul", "mm", "bmm", "__matmul__", "__rmatmul__", "einsum", "linear"})
READS = frozenset("item tolist __bool__ __int__ __float__ __index__".split())
ATTENTION = "multi_head_attention_forward"
PACKS = "_pack_padded_sequence"
_FILLS = frozenset(
    """zeros ones full empty empty_strided scalar_tensor zeros_like ones_like full_like empty_like
    new_zeros new_ones new_full new_empty""".split()
)
"""What is filled is often filled in later, and takes no time to speak of."""
_CHECKPOINT = checkpoint_file.__file__
_MOST_PARTS = 10_000
"""Of longer lists (`torch.tensor(rows)`, `x.tolist()`) no more parts are looked at."""

_ATTENDS = (PRODUCTS - {"linear"}) | {"scaled_dot_product_attention"}
_MOST_JOINED = 3
"""What so many layers of a group gave may go on as one: a query, its key and its value."""

Group = tuple[str, tuple[str, str], tuple[int, ...], tuple[int, ...]]
"""Layers that could be one: function, file and name of the program's function that called it, shape
given, and shape of the weight (of a table its width)."""


class Origin(IntEnum):
    """What a tensor was computed from; of several the highest."""

    CONSTANT = 0
    WEIGHTS = 1
    DATA = 2


class _Passed(NamedTuple):
    """Which layers of a group a tensor came through last."""

    level: int
    """How many others of the group it came through before."""
    numbers: frozenset[int] | None
    """None of more than go on as one."""


class _Known(NamedTuple):
    origin: Origin
    layers: dict[Group, _Passed]
    """Groups of layers that it came through."""
    cells: frozenset[int] = frozenset()
    """Recurrent cells that it came through, by the number of their first weight."""


class Call(NamedTuple):
    """A function whose result comes from constants and weights alone."""

    origin: Origin
    name: str
    place: Place
    taken_ns: int
    given: tuple[Tensor | int, ...]
    """Numbers in each tensor that it was given; for one of the model's parameters itself."""
    made: int
    trained: bool
    """The result has a gradient."""
    digest: tuple[Any, ...] | None
    weights: tuple[tuple[int, int], ...]
    """Number and version of each of the model's parameters that it was given."""


class LayerCall(NamedTuple):
    """A layer's function that was given data."""

    group: Group
    level: int
    """How many others of its group its input came through, one after the other."""
    place: Place
    taken_ns: int
    weight: tuple[int, ...]
    tensors: int
    """How many of the model's parameters it has: without a bias one."""
    number: int
    """Which weight, by its `id`."""
    trained: bool
    built: bool
    """The weight was computed in this step."""
    unknown: bool
    """What its input came through cannot be told."""


class Dropped(NamedTuple):
    """A function whose result is dropped, and computed again for the backward pass."""

    place: Place | None
    taken_ns: int
    made_bytes: int


@dataclass
class FunctionCalls:
    """What the functions of one batch did; `seen` is told of each.

    Args:
        model: Whose parameters and buffers are known.
    """

    model: Module
    calls: list[Call] = field(default_factory=list)
    layers: list[LayerCall] = field(default_factory=list)
    attention: list[tuple[Place, Any, Any, Any]] = field(default_factory=list)
    """Calls of attention that were asked for weights: its place, function and arguments."""
    joined: bool = False
    """A number made of weights alone was added to one made of data."""
    packs: bool = False
    """Padding is taken out again (`pack_padded_sequence`)."""
    dropped: list[Dropped] = field(default_factory=list)
    lines: Counter[Place] = field(default_factory=Counter)
    """How many functions each line called, those of the modules that it called included."""
    callers: dict[Place, tuple[Place, ...]] = field(default_factory=dict)
    """The lines that the function of each was first called from, the nearest first."""
    reads: Counter[Place] = field(default_factory=Counter)
    """How many values each line read, which it waits for on a GPU, or would."""
    broadcasts: Broadcasts = field(default_factory=Broadcasts)
    after: Counter[tuple[Group, int]] = field(default_factory=Counter)
    """By group and level: how many functions were given what one layer gave, or few as one."""
    attends: set[tuple[Group, int]] = field(default_factory=set)
    """Groups of which what two layers gave is multiplied, as a query is with its key."""
    cells: Cells = field(default_factory=Cells)
    mixed: set[tuple[str, str]] = field(default_factory=set)
    """File and name of functions of the program that may compute with data or weights."""

    def __post_init__(self) -> None:
        self._known = WeakIdKeyDictionary()
        self._parameters = {id(one) for one in self.model.parameters()}
        fixed = (one for one in self.model.parameters() if not one.requires_grad)
        self._constants = {id(one) for one in (*self.model.buffers(), *fixed)}
        self._on_host = all(one.device.type == "cpu" for one in self.model.parameters())
        weights = {*self._parameters, *self._constants}
        self.lookups, self.scores = Lookups(weights), Scores(weights)
        self._followers = (self.broadcasts, self.lookups, self.scores)

    def seen(
        self, func: Any, args: Any, kwargs: Any, output: Any, taken_ns: int, frame: FrameType
    ) -> None:
        """Note a call of a torch function."""
        name = getattr(func, "__name__", "")
        self.packs = self.packs or name == PACKS
        if gives_values(name):
            read = own_line(frame)
            self.mixed.update(() if read is None else ((read[0], read[2]),))
            if name in READS and self._waits(args):
                self.reads.update(() if read is None else (read,))
        results = [one for one in _parts(output) if is_plain(one)]
        if not results or name == "__get__" or torch._C._current_graph_task_id() != -1:
            if results or name == "__setitem__" or name in READS:  # not a shape alone
                for each in self._followers:
                    each.used(_parts((args, kwargs)))
            self._carry(results, args)
            if name == "__setitem__":
                self._fill(args)
                self._counts(own_line(frame), frame)
            return
        place = own_line(frame)
        self._counts(place, frame)
        self._drops(results, taken_ns, frame)
        every = [one for one in _parts((args, kwargs)) if isinstance(one, Tensor)]
        given = [one for one in every if is_plain(one)]
        known = [self._known_of(one) for one in given]
        origin = max((one.origin for one in known), default=Origin.CONSTANT)
        if is_random(name) or len(given) < len(every):
            origin = Origin.DATA
        through = _through(known)
        if origin is not Origin.CONSTANT and place is not None:
            self.mixed.add((place[0], place[2]))
        if origin is Origin.DATA:
            through = self._layer(name, args, kwargs, given, known, taken_ns, frame, place, through)
            self._joins(given, known, results)
            call = OnData(name, args, kwargs, given, results[0], taken_ns, place)
            for each in self._followers:
                each.seen(call)
        elif (
            place is not None and name not in _FILLS and not all(one._is_view() for one in results)
        ):
            self._own(origin, name, given, results, taken_ns, place)
            if not given_plain(frame):
                self.mixed.add((place[0], place[2]))
        cells = frozenset[int]().union(*(one.cells for one in known))
        if name in CELLS and place is not None:
            cells |= self.cells.turn(name, place, given, [one.cells for one in known], results[0])
        for one in results:
            self._set(one, _Known(origin, through, cells))
        if in_place(name) and given:
            self._set(given[0], _Known(origin, through, cells))

    def _counts(self, place: Place | None, frame: FrameType) -> None:
        if place is not None:
            if place not in self.lines:
                self.callers[place] = own_lines(frame)[1:]
            self.lines[place] += 1

    def _waits(self, args: Any) -> bool:
        """Tell whether a read is of a value that a device has, where there is one."""
        read = args[0] if args else None
        return self._on_host or (isinstance(read, Tensor) and read.device.type != "cpu")

    def _own(
        self,
        origin: Origin,
        name: str,
        given: list[Tensor],
        results: list[Tensor],
        taken_ns: int,
        place: Place,
    ) -> None:
        shapes = tuple(one if id(one) in self._parameters else one.numel() for one in given)
        digest = digest_of(results) if origin is Origin.CONSTANT else None
        made = max(one.numel() for one in results)
        trained = any(one.requires_grad for one in results)
        ours = (one for one in given if id(one) in self._parameters)
        weights = tuple((id(one), version(one)) for one in ours)
        self.calls.append(
            Call(origin, name, place, taken_ns, shapes, made, trained, digest, weights)
        )

    def _layer(
        self,
        name: str,
        args: Any,
        kwargs: Any,
        given: list[Tensor],
        known: list[_Known],
        taken_ns: int,
        frame: FrameType,
        place: Place | None,
        through: dict[Group, _Passed],
    ) -> dict[Group, _Passed]:
        """Note a layer's call, and return the groups that its result has come through."""
        if place is None:
            return through
        if name == ATTENTION and kwargs.get("need_weights", True) and called_by_own(frame):
            self.attention.append((place, _to_try(args), _to_try(kwargs), taken_ns))
        if name not in LAYERS or len(given) < 2 or known[1].origin is Origin.DATA:
            few = ((group, one) for group, one in reversed(through.items()) if one.numbers)
            last = next(few, None)
            if last is not None:
                group, (level, numbers) = last
                self.after[group, level] += 1
                if name in _ATTENDS and len(numbers or ()) > 1:
                    self.attends.add((group, level))
            return through
        data, weight = given[0], given[1]
        shape = tuple(weight.shape)
        file, _, function = place
        of = shape[1:] if name == "embedding" else shape
        group = (name, (file, function), tuple(data.shape), of)
        before = known[0].layers.get(group)
        level = 0 if before is None else before.level + 1
        self.layers.append(
            LayerCall(
                group,
                level,
                place,
                taken_ns,
                shape,
                sum(id(one) in self._parameters for one in given[1:]),
                id(weight),
                trained=known[1].origin is Origin.WEIGHTS,
                built=id(weight) not in self._parameters and not weight._is_view(),
                # What no function of torch's made may have come through a layer, too.
                unknown=data.requires_grad and data not in self._known,
            )
        )
        rest = {other: one for other, one in through.items() if other != group}
        return {**rest, group: _Passed(level, frozenset([id(weight)]))}

    def _drops(self, results: list[Tensor], taken_ns: int, frame: FrameType) -> None:
        for each in outwards(frame):
            file = each.f_code.co_filename
            if file == _CHECKPOINT:
                kept = sum(one.nbytes for one in results if not one._is_view())
                self.dropped.append(Dropped(own_line(each), taken_ns, kept))
                return

    def _joins(self, given: list[Tensor], known: list[_Known], results: list[Tensor]) -> None:
        if results[0].numel() == 1 and results[0].requires_grad and len(given) == 2:
            origins = {one.origin for one in known if one.origin is not Origin.CONSTANT}
            alone = all(one.numel() == 1 for one in given)
            self.joined = self.joined or (alone and origins == {Origin.WEIGHTS, Origin.DATA})

    def _known_of(self, tensor: Tensor) -> _Known:
        known: _Known | None = self._known.get(tensor)  # type: ignore[no-untyped-call]
        if known is not None:
            return known
        if id(tensor) in self._constants:
            return _Known(Origin.CONSTANT, {})
        trained = id(tensor) in self._parameters
        return _Known(Origin.WEIGHTS if trained else Origin.DATA, {})

    def _set(self, tensor: Tensor, known: _Known) -> None:
        if id(tensor) not in self._parameters:
            self._known[tensor] = known
        if tensor._is_view() and known.origin is Origin.DATA and tensor._base is not None:
            self._set(tensor._base, known)

    def _fill(self, args: Any) -> None:
        """Let a tensor of which a part is written (`x[i] = layer(y)`) be what is written, too."""
        if is_plain(args[0]) and is_plain(args[-1]):
            known = [self._known_of(args[0]), self._known_of(args[-1])]
            origin, cells = max(known[0].origin, known[1].origin), known[0].cells | known[1].cells
            self._set(args[0], _Known(origin, _through(known), cells))

    def _carry(self, results: list[Tensor], args: Any) -> None:
        """Let an attribute that is a tensor (`x.T`, `x.data`) be what its owner is."""
        if results and args and isinstance(args[0], Tensor):
            for one in results:
                self._set(one, self._known_of(args[0]))


def _through(known: list[_Known]) -> dict[Group, _Passed]:
    """Return what a function of several tensors has come through."""
    if len(known) == 1:
        return known[0].layers
    through: dict[Group, _Passed] = {}
    for one in known:
        for group, passed in one.layers.items():
            through[group] = _joined(through.get(group, passed), passed)
    return through


def _joined(one: _Passed, other: _Passed) -> _Passed:
    """Return the later of two, or both where neither is."""
    if one.level != other.level:
        return max(one, other, key=lambda passed: passed.level)
    numbers = None
    if one.numbers is not None and other.numbers is not None:
        numbers = one.numbers | other.numbers
    return _Passed(one.level, numbers if numbers and len(numbers) <= _MOST_JOINED else None)


def _parts(value: Any) -> Iterator[Any]:
    return islice(tensors_in(value), _MOST_PARTS)


def _to_try(given: Any) -> Any:
    """Return arguments to call a function with again, without a device's memory.

    A tensor in the host's memory is kept until it is tried; of another the shape is enough.
    """
    if isinstance(given, dict):
        return {name: _to_try(one) for name, one in given.items()}
    if isinstance(given, tuple):
        return tuple(_to_try(one) for one in given)
    if isinstance(given, Tensor) and given.device.type != "cpu":
        return torch.empty(given.shape, dtype=given.dtype, device="meta")
    return given
