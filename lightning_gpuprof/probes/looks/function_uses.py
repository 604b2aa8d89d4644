"""Reads the calls of torch's functions in two batches for work that need not be done."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import prod
from statistics import median
from typing import TypeVar

from torch import Tensor
from torch.nn.parameter import is_lazy

from lightning_gpuprof.probes.looks.attention_scores import written_attention
from lightning_gpuprof.probes.looks.broadcasts import broadcasts
from lightning_gpuprof.probes.looks.call_places import first_shown, shown
from lightning_gpuprof.probes.looks.cells import cell_loops
from lightning_gpuprof.probes.looks.comparisons import compared
from lightning_gpuprof.probes.looks.each_batch import in_each
from lightning_gpuprof.probes.looks.function_calls import Call, FunctionCalls
from lightning_gpuprof.probes.looks.indexed_rows import indexed_lookups
from lightning_gpuprof.probes.looks.layer_calls import LayerCall
from lightning_gpuprof.probes.looks.lookups import one_hot_lookups
from lightning_gpuprof.probes.looks.one_hot_sums import one_hot_sums
from lightning_gpuprof.probes.looks.origins import Origin
from lightning_gpuprof.probes.looks.repeated_values import repeated_work
from lightning_gpuprof.probes.looks.scores import unused_scores
from lightning_gpuprof.probes.looks.separate import separate_layers
from lightning_gpuprof.probes.looks.torch_names import PRODUCTS
from lightning_gpuprof.probes.stacks.loops import goes_on, loop_line
from lightning_gpuprof.probes.stacks.stack_lines import Place
from lightning_gpuprof.records.activations import WrittenActivation
from lightning_gpuprof.records.attention import UnreadWeights
from lightning_gpuprof.records.function_calls import (
    BuiltWeight,
    BusyFunction,
    Checkpointed,
    ConstantWork,
    FunctionNotes,
    Penalty,
    RebuiltWeights,
    WorkOnData,
)
from lightning_gpuprof.records.module_calls import MOST_PLACES
from lightning_gpuprof.records.slices import TakenApart
from lightning_gpuprof.records.sparse_products import SparseProduct
from lightning_gpuprof.records.windows import SeparableWindow

_T = TypeVar("_T")
_SQUARES = frozenset(
    """pow __pow__ square norm linalg_norm linalg_vector_norm vector_norm frobenius_norm mul __mul__
    dot vdot""".split()
)
_OTHER_TERMS = frozenset({"log", "exp", "log1p", "expm1", "softplus", "log_", "exp_"})
"""With these it is a divergence between distributions, not a sum of squares alone."""
MOST_OF = 0.5
"""A penalty over less of the trained numbers is one that the optimizer's cannot stand for."""
GROWS = 2
"""A product has so many times the numbers of its larger factor at least: else that is not thin."""


def notes_of(
    batches: Sequence[FunctionCalls],
    unread: UnreadWeights | None,
    apart: tuple[TakenApart, ...] = (),
    windows: tuple[SeparableWindow, ...] = (),
    activations: tuple[WrittenActivation, ...] = (),
    products: tuple[SparseProduct, ...] = (),
) -> FunctionNotes:
    """Return what the calls of several batches show; times are of the faster batch."""
    last = batches[-1]
    return FunctionNotes(
        constants=_constants(batches),
        penalty=_least((_penalty(one) for one in batches), lambda one: one.taken_ns),
        built=_least((_built(one) for one in batches), lambda one: one.layer_ns),
        rebuilt=_least((_rebuilt(one) for one in batches), lambda one: one.again_ns),
        separate=separate_layers(last.layers),
        unread=unread,
        lengths=tuple(sorted({size for one in last.layers.calls for size in _lengths(one)})),
        packs=last.packs,
        checkpointed=_checkpointed(batches),
        busy=_busy(last.lines, last.callers),
        reading=_busy(last.reads, last.callers),
        broadcast=broadcasts([one.broadcasts for one in batches]),
        cells=cell_loops(last.cells, lambda place: _loop(place, last.callers)),
        lookups=one_hot_lookups([one.lookups for one in batches]),
        sums=one_hot_sums([one.sums for one in batches]),
        scores=unused_scores([one.scores for one in batches]),
        repeated=repeated_work([one.values for one in batches]),
        compared=compared([one.compared for one in batches]),
        on_data=_on_data([one.on_data_alone for one in batches]),
        indexed=indexed_lookups([one.indexed for one in batches]),
        attention=written_attention([one.written for one in batches]),
        apart=apart,
        windows=windows,
        activations=activations,
        products=products,
    )


def _on_data(batches: Sequence[Counter[Place]]) -> tuple[WorkOnData, ...]:
    found = [
        min((_by_time(ones) for ones in every), key=lambda one: one.taken_ns)
        for every in in_each((one.items() for one in batches), lambda item: item[0][::2])
    ]
    return tuple(sorted(found, key=lambda one: -one.taken_ns)[:MOST_PLACES])


def _by_time(lines: Sequence[tuple[Place, int]]) -> WorkOnData:
    ranked = sorted(lines, key=lambda item: -item[1])
    return WorkOnData(sum(ns for _, ns in lines), first_shown(place for place, _ in ranked))


def _busy(
    lines: Counter[Place], callers: dict[Place, tuple[Place, ...]]
) -> tuple[BusyFunction, ...]:
    functions: dict[tuple[str, str], Counter[Place]] = defaultdict(Counter)
    for place, calls in lines.items():
        file, _, name = place
        functions[file, name][place] = calls
    ranked = sorted(functions.values(), key=lambda ones: -ones.total())
    return tuple(_busy_function(ones, lines.total(), callers) for ones in ranked[:MOST_PLACES])


def _busy_function(
    lines: Counter[Place], every: int, callers: dict[Place, tuple[Place, ...]]
) -> BusyFunction:
    """Return a function by the loop in it, or around it, that makes most of its calls."""
    loops: dict[Place | None, Counter[Place]] = defaultdict(Counter)
    for place, calls in lines.items():
        loops[_loop(place, callers)][place] = calls
    loop, ones = max(loops.items(), key=lambda item: item[1].total())
    return BusyFunction(
        calls_frac=lines.total() / every,
        calls=lines.total(),
        place=shown(ones.most_common(1)[0][0]),
        loop=None if loop is None else shown(loop),
        loop_calls=None if loop is None else ones.total(),
        goes_on=loop is not None and goes_on(loop[0], loop[1]),
    )


def _loop(place: Place, callers: dict[Place, tuple[Place, ...]]) -> Place | None:
    """Return the innermost loop that a line is in, or one of those that it was called from."""
    for file, line, function in (place, *callers.get(place, ())):
        begins = loop_line(file, line)
        if begins is not None:
            return file, begins, function
    return None


def _checkpointed(batches: Sequence[FunctionCalls]) -> Checkpointed | None:
    last = min((one.dropped for one in batches), key=lambda all_: sum(a.taken_ns for a in all_))
    if not last:
        return None
    places = dict.fromkeys(one.place for one in last if one.place is not None)
    return Checkpointed(
        taken_ns=sum(one.taken_ns for one in last),
        calls=len(last),
        made_bytes=sum(one.made_bytes for one in last),
        free_bytes=_free_bytes(),
        places=first_shown(list(places)),
    )


def _free_bytes() -> int | None:
    """Return the host's memory that is to be had, as Linux tells it."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            rows = dict(line.split(":", 1) for line in file)
        return int(rows["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return None


def _lengths(call: LayerCall) -> tuple[int, ...]:
    name, _, data, _ = call.group
    return data if name == "embedding" else data[:-1]


def _least(found: Iterable[_T | None], time_of: Callable[[_T], int]) -> _T | None:
    """Return what was found in the batch that it took less time in; None where one lacks it."""
    every = list(found)
    known = [one for one in every if one is not None]
    return min(known, key=time_of) if len(known) == len(every) else None


def _constants(batches: Sequence[FunctionCalls]) -> tuple[ConstantWork, ...]:
    """Return the work whose results were the same in each of the batches."""
    by_batch = [_by_place(calls, Origin.CONSTANT) for calls in batches]
    same = [
        place
        for place, calls in by_batch[0].items()
        if len(batches) > 1 and all(_results(calls) == _results(b.get(place, ())) for b in by_batch)
    ]
    functions: dict[tuple[str, str], list[Place]] = defaultdict(list)
    for place in same:
        functions[place[0], place[2]].append(place)
    mixed = set().union(*(one.mixed for one in batches))
    every = {place for batch in by_batch for place in batch}
    mixed |= {(place[0], place[2]) for place in every if _varies(by_batch, place)}
    found = []
    for function, places in functions.items():
        times = {place: min(_taken(batch[place]) for batch in by_batch) for place in places}
        places.sort(key=lambda place: -times[place])
        count = sum(len(by_batch[0][place]) for place in places)
        alone = function not in mixed
        found.append(ConstantWork(sum(times.values()), count, first_shown(places), alone))
    return tuple(sorted(found, key=lambda one: -one.taken_ns))


def _varies(by_batch: Iterable[Mapping[Place, Sequence[Call]]], place: Place) -> bool:
    """Tell whether a line's constants differ between batches, or may.

    A device's are not read: what is made there of other tensors is taken to vary as those do.
    """
    first, *others = (
        [one.digest for one in batch.get(place, ()) if one.digest is not None or not one.given]
        for batch in by_batch
    )
    return None in first or any(one != first for one in others)


def _results(calls: Iterable[Call]) -> list[object]:
    """Return what tells the results of calls apart: by their names where values are not read."""
    return [one.name if one.digest is None else one.digest for one in calls]


def _penalty(calls: FunctionCalls) -> Penalty | None:
    weights = (one for one in calls.model.parameters() if not is_lazy(one))
    trained = {id(one): one for one in weights if one.requires_grad}
    for places in _of_weights(calls).values():
        ours = [one for place in places.values() for one in place if one.trained]
        squared = {
            id(given): given.numel()
            for one in ours
            if one.name in _SQUARES
            for given in one.given
            if isinstance(given, Tensor) and id(given) in trained
        }
        sums = any(one.made == 1 for one in ours)
        numbers = sum(squared.values())
        if not calls.joined or not sums or any(one.name in _OTHER_TERMS for one in ours):
            continue
        if numbers and numbers >= MOST_OF * sum(one.numel() for one in trained.values()):
            return Penalty(numbers, _taken(ours), first_shown(_dearest(places)))
    return None


def _built(calls: FunctionCalls) -> BuiltWeight | None:
    used = [one for one in calls.layers.calls if one.built and one.group[0] == "linear"]
    for places in _of_weights(calls).values():
        ours = [one for place in places.values() for one in place]
        products = [one for one in ours if one.name in PRODUCTS and one.trained and _thin(one)]
        sizes = {one.made for one in products}
        beside = [one for one in ours if one.made in sizes and one not in products]
        layers = [one for one in used if prod(one.weight) in sizes]
        whole = any(
            isinstance(given, Tensor) and given.requires_grad and given.numel() in sizes
            for one in beside
            for given in one.given
        )
        if products and layers and not whole:
            thin = [sum(_sizes(one)) / one.made for one in products]
            return BuiltWeight(
                layers=len(layers),
                product_ns=_taken(products),
                around_ns=_taken(beside),
                layer_ns=sum(one.taken_ns for one in layers),
                thin_frac=median(thin),
                places=first_shown(_dearest(places)),
            )
    return None


def _rebuilt(calls: FunctionCalls) -> RebuiltWeights | None:
    """Return the work on weights that is done again with the same weights, unchanged since."""
    gone_ns, times, repeated = 0, 1, []
    for place, ours in _by_place(calls, Origin.WEIGHTS).items():
        same = Counter((one.name, one.weights) for one in ours if one.weights)
        # What follows on such a call is done as often, though it is given no weight itself.
        often = min(same.values(), default=1)
        if often > 1:
            gone_ns += round(_taken(ours) * (often - 1) / often)
            times = max(times, often)
            repeated.append(place)
    return RebuiltWeights(times, gone_ns, first_shown(repeated)) if repeated else None


def _thin(product: Call) -> bool:
    sizes = _sizes(product)
    return len(sizes) == 2 and product.made >= GROWS * max(sizes)


def _sizes(call: Call) -> list[int]:
    return [one.numel() if isinstance(one, Tensor) else one for one in call.given]


def _by_place(calls: FunctionCalls, origin: Origin) -> dict[Place, list[Call]]:
    found: dict[Place, list[Call]] = defaultdict(list)
    for one in calls.calls:
        if one.origin is origin:
            found[one.place].append(one)
    return found


def _of_weights(calls: FunctionCalls) -> dict[tuple[str, str], dict[Place, list[Call]]]:
    """Return the calls on weights alone, by the program's function and its lines."""
    found: dict[tuple[str, str], dict[Place, list[Call]]] = defaultdict(dict)
    for place, ours in _by_place(calls, Origin.WEIGHTS).items():
        found[place[0], place[2]][place] = ours
    return found


def _dearest(places: dict[Place, list[Call]]) -> list[Place]:
    return sorted(places, key=lambda place: -_taken(places[place]))


def _taken(calls: Iterable[Call]) -> int:
    return sum(one.taken_ns for one in calls)
