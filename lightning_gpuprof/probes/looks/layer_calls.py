"""Notes the layers of a step, which could be one where none is given what another one gave."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from torch import Tensor

from lightning_gpuprof.probes.looks.on_data import OnData
from lightning_gpuprof.probes.looks.origins import Group, Known, Origin, Passed
from lightning_gpuprof.probes.looks.torch_names import ATTENDS, LAYERS
from lightning_gpuprof.probes.stacks.stack_lines import Place


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


@dataclass
class LayerCalls:
    """The layers of one batch; `seen` is told of each function on data.

    Args:
        parameters: Numbers (`id`) of the model's parameters.
        known: What is known of the tensors of the step so far.
    """

    parameters: set[int]
    known: Mapping[Tensor, Any]
    calls: list[LayerCall] = field(default_factory=list)
    after: Counter[tuple[Group, int]] = field(default_factory=Counter)
    """By group and level: how many functions were given what one layer gave, or few as one."""
    attends: set[tuple[Group, int]] = field(default_factory=set)
    """Groups of which what two layers gave is multiplied, as a query is with its key."""

    def seen(
        self, call: OnData, known: Sequence[Known], through: dict[Group, Passed]
    ) -> dict[Group, Passed]:
        """Note a call, and return the groups that its result has come through.

        Args:
            call: Of any function.
            known: What is known of each of the tensors that it was given.
            through: The groups that these have come through.
        """
        name, given, place = call.name, call.given, call.place
        if place is None:
            return through
        if name not in LAYERS or len(given) < 2 or known[1].origin is Origin.DATA:
            self._goes_on(name, through)
            return through
        data, weight = given[0], given[1]
        shape = tuple(weight.shape)
        file, _, function = place
        of = shape[1:] if name == "embedding" else shape
        group = (name, (file, function), tuple(data.shape), of)
        before = known[0].layers.get(group)
        level = 0 if before is None else before.level + 1
        self.calls.append(
            LayerCall(
                group,
                level,
                place,
                call.taken_ns,
                shape,
                sum(id(one) in self.parameters for one in given[1:]),
                id(weight),
                trained=known[1].origin is Origin.WEIGHTS,
                built=id(weight) not in self.parameters and not weight._is_view(),
                # What no function of torch's made may have come through a layer, too.
                unknown=data.requires_grad and data not in self.known,
            )
        )
        rest = {other: one for other, one in through.items() if other != group}
        return {**rest, group: Passed(level, frozenset([id(weight)]))}

    def _goes_on(self, name: str, through: dict[Group, Passed]) -> None:
        few = ((group, one) for group, one in reversed(through.items()) if one.numbers)
        last = next(few, None)
        if last is not None:
            group, (level, numbers) = last
            self.after[group, level] += 1
            if name in ATTENDS and len(numbers or ()) > 1:
                self.attends.add((group, level))
