"""Follows every tensor storage from its making to its end, by a dispatch mode: real or fake.

What no operator returns (a kernel's own workspace, a Python float) is not seen.
"""

import weakref
from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from typing_extensions import override


@dataclass
class Block:
    """One storage: its bytes as asked for, the phase it was made in and the one it ended in."""

    size: int
    born: str
    died: str | None = None
    kind: str | None = None
    """Set by `LiveBytes.mark`; None for what a step made on its way."""


class LiveBytes(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Keeps the order in which storages are made and dropped.

    Set `phase` to name the part of the step that runs. `events` holds `(index into blocks,
    bytes)`, with -1 for the end of a block.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.phase = "setup"
        self.blocks: list[Block] = []
        self.events: list[tuple[int, int]] = []
        self._live: dict[int, int] = {}
        self._watch: dict[int, weakref.ref[Any]] = {}

    def mark(self, tensors: Iterable[Any], kind: str) -> None:
        """Say what kind of memory these tensors are; those not seen yet are taken up.

        Args:
            tensors: A nest of tensors; other leaves are passed over.
            kind: Name of the kind.
        """
        for tensor in tree_leaves(tensors):
            if isinstance(tensor, torch.Tensor):
                for storage in _storages(tensor):
                    block = self.blocks[self._take(storage)]
                    if block.kind is None:
                        block.kind = kind

    @override
    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if isinstance(tensor, torch.Tensor):
                for storage in _storages(tensor):
                    self._take(storage)
        return result

    def _take(self, storage: torch.UntypedStorage) -> int:
        key = storage._cdata
        if (known := self._live.get(key)) is not None:
            return known
        index = len(self.blocks)
        self.blocks.append(Block(storage.nbytes(), self.phase))
        self.events.append((index, storage.nbytes()))
        self._live[key] = index
        self._watch[key] = weakref.ref(storage, partial(self._drop, key))
        return index

    def _drop(self, key: int, _: object) -> None:
        index = self._live.pop(key)
        del self._watch[key]
        self.blocks[index].died = self.phase
        self.events.append((index, -1))


def _storages(tensor: torch.Tensor) -> list[torch.UntypedStorage]:
    """Return what holds a tensor's data: several for a sparse one, none where it has none."""
    if tensor.layout is not torch.strided:
        parts = ("_indices", "_values") if tensor.layout is torch.sparse_coo else ()
        return [getattr(tensor, part)().untyped_storage() for part in parts]
    return [tensor.untyped_storage()]


def fake_tensors() -> AbstractContextManager[Any]:
    """Return the mode under which tensors have shapes and no data."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    # What a model brings in from outside (numpy, a file) is turned into a fake on first use.
    mode: AbstractContextManager[Any] = FakeTensorMode(allow_non_fake_inputs=True)
    return mode
