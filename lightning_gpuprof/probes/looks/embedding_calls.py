"""Counts how many rows of each embedding table a batch looks up."""

from collections import Counter
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from torch import Tensor
from torch.nn import Embedding, EmbeddingBag, Module

from lightning_gpuprof.probes.stacks.stack_lines import own_line


@dataclass
class EmbeddingCalls:
    """Notes the calls of trained tables with dense gradients; reads shapes, no values.

    Args:
        root: The model. A table whose weight another module holds, too, such as the last layer of
            a language model, has a dense gradient anyway: it is left out.
    """

    root: Module
    looked_up: Counter[int] = field(default_factory=Counter)
    """Indices given to each table, by its `id`."""
    places: dict[int, tuple[str, int, str]] = field(default_factory=dict)
    tables: dict[int, Embedding | EmbeddingBag] = field(default_factory=dict)

    def called(self, module: Module, args: Any, frame: FrameType | None) -> None:
        """Note a module's call, if it is such a table."""
        if not isinstance(module, Embedding | EmbeddingBag) or not self.root.training:
            return
        if module.sparse or not module.weight.requires_grad or not args:
            return
        if isinstance(args[0], Tensor):
            self.looked_up[id(module)] += args[0].numel()
            self.tables[id(module)] = module
            place = own_line(frame)
            if place is not None:
                self.places.setdefault(id(module), place)

    def own(self) -> dict[int, Embedding | EmbeddingBag]:
        """Return the tables that no other module shares the weight of."""
        held = Counter(
            id(weight) for part in self.root.modules() for weight in part._parameters.values()
        )
        return {n: table for n, table in self.tables.items() if held[id(table.weight)] == 1}
