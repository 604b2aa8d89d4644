"""Finds equal layers that are called one by one, where none is given what another one gave."""

from collections import defaultdict
from statistics import median

from lightning_gpuprof.probes.looks.call_places import shown
from lightning_gpuprof.probes.looks.layer_calls import LayerCall, LayerCalls
from lightning_gpuprof.probes.looks.origins import Group
from lightning_gpuprof.records.function_calls import SeparateLayers

LEAST_LAYERS = 8


def separate_layers(calls: LayerCalls) -> tuple[SeparateLayers, ...]:
    """Return the layers of one batch that could be one, those of one function together.

    Args:
        calls: What was seen in the batch.
    """
    levels: dict[Group, dict[int, list[LayerCall]]] = defaultdict(lambda: defaultdict(list))
    for one in calls.calls:
        levels[one.group][one.level].append(one)
    # Heads of several layers, or of several blocks: as many of a kind, in the same function.
    heads: dict[object, list[tuple[Group, int]]] = defaultdict(list)
    for group, by_level in levels.items():
        every = [one for same in by_level.values() for one in same]
        if any(one.unknown or one.built or not one.trained for one in every):
            continue
        weights = {level: {one.number for one in same} for level, same in by_level.items()}
        # One that is called again with what came through it is recurrent: turns cannot be one.
        if sum(map(len, weights.values())) > len(set().union(*weights.values())):
            continue
        for level, numbers in weights.items():
            if len(numbers) >= LEAST_LAYERS:
                heads[group[0], group[1], len(numbers)].append((group, level))
    found = []
    for alike in heads.values():
        group, level = alike[0]
        same = levels[group][level]
        layers = len({one.number for one in same})
        found.append(
            SeparateLayers(
                kind=group[0],
                layers=layers,
                call_ns=round(median(one.taken_ns for one in same)),
                data=group[2],
                weight=same[0].weight,
                place=shown(same[0].place),
                depth=len(alike),
                after=round(sum(calls.after[one] for one in alike) / layers),
                attends=any(one in calls.attends for one in alike),
                tensors=max(one.tensors for one in same),
            )
        )
    return tuple(sorted(found, key=lambda one: -one.layers))
