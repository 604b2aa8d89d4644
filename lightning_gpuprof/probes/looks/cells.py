"""Follows recurrent cells that a loop of the program takes through a sequence."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from weakref import ref

from torch import Tensor

from lightning_gpuprof.probes.looks.call_places import shown
from lightning_gpuprof.probes.stacks.stack_lines import Place
from lightning_gpuprof.records.function_calls import CellLoop

CELLS = {"lstm_cell": 3, "gru_cell": 2, "rnn_tanh_cell": 2, "rnn_relu_cell": 2}
"""Functions of cells, by how many tensors come before their first weight."""
LEAST_TURNS = 8
"""As of equal layers (`separate.py`): fewer are little to save."""


@dataclass
class Turns:
    """The turns of one cell.

    Args:
        name: Its function.
        place: The line that called it first.
        times: How many.
        needed: One of them was given what another one gave, as its input or, altered, as its
            state: they cannot be made at once.
    """

    name: str
    place: Place
    times: int = 0
    needed: bool = False


@dataclass
class Cells:
    """The cells of one batch, each known by the number (`id`) of its first weight."""

    turns: dict[int, Turns] = field(default_factory=dict)
    _states: dict[int, list[ref[Tensor]]] = field(default_factory=dict)

    def turn(
        self,
        name: str,
        place: Place,
        given: Sequence[Tensor],
        through: Sequence[frozenset[int]],
        states: Sequence[Tensor],
    ) -> set[int]:
        """Note a turn, and return the cell's number.

        Args:
            name: The function.
            place: The line that called it.
            given: The tensors that it was given: the input, the state or states, the weights.
            through: The cells that each of them came through.
            states: What it returned.
        """
        if len(given) <= CELLS[name]:
            return set()
        number = id(given[CELLS[name]])
        turns = self.turns.setdefault(number, Turns(name, place))
        turns.times += 1
        last = [one() for one in self._states.get(number, ())] or [None, None]
        states_given = zip(given[1:], through[1 : CELLS[name]], last, strict=False)
        altered = any(number in came and one is not own for one, came, own in states_given)
        turns.needed = turns.needed or altered or number in through[0]
        self._states[number] = [ref(one) for one in states]
        return {number}


def cell_loops(cells: Cells, loop_around: Callable[[Place], Place | None]) -> tuple[CellLoop, ...]:
    """Return the cells whose turns a recurrent layer could take at once, that of most first."""
    loops = (one for one in cells.turns.values() if one.times >= LEAST_TURNS and not one.needed)
    return tuple(
        CellLoop(
            one.name.partition("_")[0].upper(),
            one.times,
            shown(one.place),
            None if (loop := loop_around(one.place)) is None else shown(loop),
        )
        for one in sorted(loops, key=lambda one: -one.times)
    )
