"""How often modules are called in a step, and which of these calls could be one."""

import sys
from collections import Counter, defaultdict
from traceback import walk_stack
from typing import Any

import torch

from lightning_gpuprof.records.lines import ModuleCalls
from lightning_gpuprof.session.places import USER, Place, package_in, shown
from lightning_gpuprof.timing.components import tensors_of

WATCHED = 5
"""Steps in which calls are counted: the first ones, as those of warm-up are slow anyway."""
MIN_CALLS = 4
"""Calls from one line that make it a loop."""
MOST_NODES = 100_000


class CallCounts:
    """Counts calls by name in a few steps, and in the first of them looks at each.

    It notes the line that calls, and walks the autograd graph behind the inputs: a call whose
    inputs were made from what an earlier one returned has to come after it.
    """

    def __init__(self) -> None:
        self.open = False
        self.steps = 0
        self._calls = Counter[str]()
        self._lines: defaultdict[str, Counter[Place]] = defaultdict(Counter)
        self._returned: defaultdict[str, set[Any]] = defaultdict(set)
        self._seen: defaultdict[str, set[Any]] = defaultdict(set)
        self._chained: set[str] = set()

    def end_step(self) -> None:
        """A step's batch has run: nothing of its graph is kept."""
        self.open = False
        self.steps += 1
        self._returned.clear()
        self._seen.clear()

    def called(self, name: str, inputs: Any) -> None:
        """A module is called."""
        if self.open:
            self._calls[name] += 1
        if self.open and not self.steps and name not in self._chained:
            self._lines[name][_calling_line()] += 1
            # Without gradients there is no graph that would tell.
            if not torch.is_grad_enabled() or self._follows(name, _nodes(inputs)):
                self._chained.add(name)

    def returned(self, name: str, output: Any) -> None:
        """A call has returned."""
        if self.open and not self.steps:
            self._returned[name].update(_nodes(output))

    def record(self) -> ModuleCalls:
        """Return the calls per step, and the lines of calls that could be one."""
        loops = {name: lines.most_common(1)[0] for name, lines in self._lines.items()}
        return ModuleCalls(
            {name: count / self.steps for name, count in self._calls.items()},
            {
                name: shown(place)
                for name, (place, count) in loops.items()
                if count >= MIN_CALLS and name not in self._chained
            },
        )

    def _follows(self, name: str, todo: list[Any]) -> bool:
        """Tell whether one of these nodes came of what a call returned, or too many to be sure."""
        seen, before = self._seen[name], self._returned[name]
        while todo:
            node = todo.pop()
            if node in before or len(seen) >= MOST_NODES:
                return True
            if node not in seen:  # else it was there before those that returned since
                seen.add(node)
                todo += [after for after, _ in node.next_functions if after is not None]
        return False


def _nodes(value: Any) -> list[Any]:
    return [one.grad_fn for one in tensors_of(value) if one.grad_fn is not None]


def _calling_line() -> Place:
    """Return the innermost line of the user's own."""
    for frame, line in walk_stack(sys._getframe(1)):
        if package_in(frame) == USER:
            return frame.f_code.co_filename, line, frame.f_code.co_name
    return "", 0, ""
