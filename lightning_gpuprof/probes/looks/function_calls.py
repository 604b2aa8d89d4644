"""Watches torch's functions for what a step computes without its batch, and module by module."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from types import FrameType
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import Module
from torch.utils import checkpoint as checkpoint_file
from torch.utils.weak import WeakIdKeyDictionary

from lightning_gpuprof.probes.latency.latency import tensors_in
from lightning_gpuprof.probes.looks.attention_scores import AttentionScores
from lightning_gpuprof.probes.looks.broadcasts import Broadcasts
from lightning_gpuprof.probes.looks.cells import CELLS, Cells
from lightning_gpuprof.probes.looks.comparisons import Comparisons
from lightning_gpuprof.probes.looks.function_inputs import (
    called_by_own,
    given_plain,
    gives_values,
)
from lightning_gpuprof.probes.looks.indexed_rows import IndexedRows
from lightning_gpuprof.probes.looks.layer_calls import LayerCalls
from lightning_gpuprof.probes.looks.lookups import Lookups
from lightning_gpuprof.probes.looks.on_data import OnData
from lightning_gpuprof.probes.looks.one_hot_sums import OneHotSums
from lightning_gpuprof.probes.looks.origins import Known, Origin, passed_through
from lightning_gpuprof.probes.looks.repeated_values import Values, told
from lightning_gpuprof.probes.looks.scores import Scores
from lightning_gpuprof.probes.looks.separable_windows import SeparableWindows
from lightning_gpuprof.probes.looks.sparse_products import SparseProducts
from lightning_gpuprof.probes.looks.taken_apart import Slices
from lightning_gpuprof.probes.looks.tensor_values import digest_of, is_plain, version
from lightning_gpuprof.probes.looks.torch_names import (
    ATTENTION,
    FILLS,
    PACKS,
    READS,
    is_in_place,
    is_random,
)
from lightning_gpuprof.probes.looks.written_activations import WrittenActivations
from lightning_gpuprof.probes.stacks.stack_lines import (
    Place,
    outwards,
    own_line,
    own_lines,
)

_CHECKPOINT = checkpoint_file.__file__
_MOST_PARTS = 10_000
"""Of longer lists (`torch.tensor(rows)`, `x.tolist()`) no more parts are looked at."""


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


class Dropped(NamedTuple):
    """A function whose result is dropped, and computed again for the backward pass."""

    place: Place | None
    taken_ns: int
    made_bytes: int


def versions_of(model: Module) -> dict[int, int]:
    """Return how often what is not trained was changed in place, by its number.

    A count of batches, or an average over them, is changed in each.
    """
    fixed = (one for one in model.parameters() if not one.requires_grad)
    return {id(one): version(one) for one in (*model.buffers(), *fixed)}


@dataclass
class FunctionCalls:
    """What the functions of one batch did; `seen` is told of each.

    Args:
        model: Whose parameters and buffers are known.
        versions: What `versions_of` told of the model at an earlier batch.
    """

    model: Module
    versions: Mapping[int, int] | None = None
    calls: list[Call] = field(default_factory=list)
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
    on_data_alone: Counter[Place] = field(default_factory=Counter)
    """Time of each line's functions of the batch in which no weight takes part."""
    broadcasts: Broadcasts = field(default_factory=Broadcasts)
    cells: Cells = field(default_factory=Cells)
    indexed: IndexedRows = field(default_factory=IndexedRows)
    windows: SeparableWindows = field(default_factory=SeparableWindows)
    activations: WrittenActivations = field(default_factory=WrittenActivations)
    products: SparseProducts = field(default_factory=SparseProducts)
    slices: Slices = field(default_factory=Slices)
    mixed: set[tuple[str, str]] = field(default_factory=set)
    """File and name of functions of the program that may compute with data or weights."""

    def __post_init__(self) -> None:
        self._plain: set[tuple[str, str]] = set()
        self._known = WeakIdKeyDictionary()
        self._parameters = {id(one) for one in self.model.parameters()}
        every = versions_of(self.model)
        known = every if self.versions is None else self.versions
        self._changed = {one for one, now in every.items() if known.get(one) != now}
        self._constants = every.keys() - self._changed
        self._on_host = all(one.device.type == "cpu" for one in self.model.parameters())
        weights = {*self._parameters, *every}
        self.layers, self.values = LayerCalls(self._parameters, self._known), Values()
        self.lookups, self.scores = Lookups(weights), Scores(weights)
        self.compared, self.written, self.sums = Comparisons(), AttentionScores(), OneHotSums()
        self._followers = (
            self.broadcasts, self.lookups, self.scores, self.compared, self.written, self.sums,
        )  # fmt: skip

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
        before = self.values.seen(func, name, args, kwargs, results, taken_ns)
        if not results or name == "__get__" or torch._C._current_graph_task_id() != -1:
            if results or name == "__setitem__" or name in READS:  # not a shape alone
                for each in self._followers:
                    each.used(_parts((args, kwargs)))
            self._carry(results, args)
            if name == "__setitem__":
                self._fill(args)
                self._counts(own_line(frame), frame)
            return
        if name == "arange":
            self.sums.counts(results)
        place = own_line(frame)
        self._counts(place, frame)
        self._drops(results, taken_ns, frame)
        self.indexed.seen(name, args, results, place)
        self.slices.seen(name, args, results, place)
        every = [one for one in _parts((args, kwargs)) if isinstance(one, Tensor)]
        given = [one for one in every if is_plain(one)]
        self.products.seen(OnData(name, args, kwargs, given, results[0], taken_ns, place))
        known = [self._known_of(one) for one in given]
        origin = max((one.origin for one in known), default=Origin.CONSTANT)
        if is_random(name) or len(given) < len(every):
            origin = Origin.DATA
        through = passed_through(known)
        weighted = any(one.weighted for one in known)
        drawn = is_random(name) or any(one.drawn for one in known)
        if origin is not Origin.CONSTANT and place is not None:
            self.mixed.add((place[0], place[2]))
        if origin is Origin.DATA:
            call = OnData(name, args, kwargs, given, results[0], taken_ns, place)
            through = self.layers.seen(call, known, through)
            self._attends(call, frame)
            self.windows.seen(call)
            self.activations.seen(call)
            self._joins(given, known, results)
            for each in self._followers:
                each.seen(call)
            asked = name in FILLS or name == "clone"  # for a tensor of its own
            if before is not None and place is not None and not (asked or results[0]._is_view()):
                told(before, place, frame)
            if place is not None and not (results[0].requires_grad or weighted or drawn):
                self.on_data_alone[place] += taken_ns
        elif place is not None and name not in FILLS and not all(one._is_view() for one in results):
            self._own(origin, name, given, results, taken_ns, place)
            function = place[0], place[2]
            new = function not in self.mixed and function not in self._plain
            if new and self.calls[-1].digest is not None:
                (self._plain if given_plain(frame) else self.mixed).add(function)
        cells = frozenset[int]().union(*(one.cells for one in known))
        if name in CELLS and place is not None:
            cells |= self.cells.turn(name, place, given, [one.cells for one in known], results)
        now = Known(origin, through, cells, weighted, drawn)
        for one in results:
            self._set(one, now)
        if is_in_place(name) and given:
            self._set(given[0], now)

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

    def _attends(self, call: OnData, frame: FrameType) -> None:
        if call.name != ATTENTION or call.place is None or not called_by_own(frame):
            return
        if call.kwargs.get("need_weights", True):
            given = _to_try(call.args), _to_try(call.kwargs)
            self.attention.append((call.place, *given, call.taken_ns))

    def _drops(self, results: list[Tensor], taken_ns: int, frame: FrameType) -> None:
        for each in outwards(frame):
            file = each.f_code.co_filename
            if file == _CHECKPOINT:
                kept = sum(one.nbytes for one in results if not one._is_view())
                self.dropped.append(Dropped(own_line(each), taken_ns, kept))
                return

    def _joins(self, given: list[Tensor], known: list[Known], results: list[Tensor]) -> None:
        if results[0].numel() == 1 and results[0].requires_grad and len(given) == 2:
            origins = {one.origin for one in known if one.origin is not Origin.CONSTANT}
            alone = all(one.numel() == 1 for one in given)
            self.joined = self.joined or (alone and origins == {Origin.WEIGHTS, Origin.DATA})

    def _known_of(self, tensor: Tensor) -> Known:
        known: Known | None = self._known.get(tensor)  # type: ignore[no-untyped-call]
        if known is not None:
            return known
        if id(tensor) in self._constants:
            return Known(Origin.CONSTANT, {}, weighted=id(tensor) in self._parameters)
        if id(tensor) in self._changed:
            return Known(Origin.DATA, {}, weighted=id(tensor) in self._parameters, drawn=True)
        trained = id(tensor) in self._parameters
        # A teacher may be kept out of the model's modules.
        weighted = trained or isinstance(tensor, torch.nn.Parameter)
        return Known(Origin.WEIGHTS if trained else Origin.DATA, {}, weighted=weighted)

    def _set(self, tensor: Tensor, known: Known) -> None:
        if id(tensor) not in self._parameters:
            self._known[tensor] = known
        if tensor._is_view() and known.origin is Origin.DATA and tensor._base is not None:
            self._set(tensor._base, known)

    def _fill(self, args: Any) -> None:
        """Let a tensor of which a part is written (`x[i] = layer(y)`) be what is written, too."""
        if is_plain(args[0]) and is_plain(args[-1]):
            known = [self._known_of(args[0]), self._known_of(args[-1])]
            origin, cells = max(known[0].origin, known[1].origin), known[0].cells | known[1].cells
            weighted = known[0].weighted or known[1].weighted
            drawn = known[0].drawn or known[1].drawn
            self._set(args[0], Known(origin, passed_through(known), cells, weighted, drawn))

    def _carry(self, results: list[Tensor], args: Any) -> None:
        """Let an attribute that is a tensor (`x.T`, `x.data`) be what its owner is."""
        if results and args and isinstance(args[0], Tensor):
            for one in results:
                self._set(one, self._known_of(args[0]))


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
