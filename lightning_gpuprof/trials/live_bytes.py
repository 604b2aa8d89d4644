"""Follows every tensor storage, real or fake, from allocation to release, by a dispatch mode.

Memory that no operator returns, such as a kernel's workspace, is not counted.
"""

import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from typing_extensions import override

from lightning_gpuprof.adapters.fake_tensors import storage_id, storages_of
from lightning_gpuprof.adapters.torch_tensors import TorchDispatchMode, tree_leaves


@dataclass
class Block:
    """One storage: its requested bytes and the phases in which it was allocated and released."""

    size: int
    born: str
    died: str | None = None
    kind: str | None = None
    """Set by `LiveBytes.mark`; None for intermediate results."""


class LiveBytes(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Keeps the order in which storages are allocated and released.

    Set `phase` to name the part of the step that runs. `events` holds `(index into blocks,
    bytes)`, with -1 bytes for a release.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.phase = "setup"
        self.blocks: list[Block] = []
        self.events: list[tuple[int, int]] = []
        self._live: dict[int, int] = {}
        self._ends: dict[int, weakref.ref[Any]] = {}

    def mark(self, tensors: Iterable[Any], kind: str) -> None:
        """Set the kind of the tensors in a nest; later marks of the same storage change nothing."""
        for storage in _storages(tensors):
            block = self.blocks[self._take(storage)]
            block.kind = block.kind or kind

    @override
    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        for storage in _storages(result):
            self._take(storage)
        return result

    def _take(self, storage: torch.UntypedStorage) -> int:
        key = storage_id(storage)
        if (known := self._live.get(key)) is not None:
            return known
        index = len(self.blocks)
        self.blocks.append(Block(storage.nbytes(), self.phase))
        self.events.append((index, storage.nbytes()))
        self._live[key] = index
        self._ends[key] = weakref.ref(storage, partial(self._drop, key))
        return index

    def _drop(self, key: int, _: object) -> None:
        index = self._live.pop(key)
        del self._ends[key]
        self.blocks[index].died = self.phase
        self.events.append((index, -1))


def _storages(nest: Any) -> Iterator[torch.UntypedStorage]:
    tensors = (leaf for leaf in tree_leaves(nest) if isinstance(leaf, torch.Tensor))
    return (storage for tensor in tensors for storage in storages_of(tensor))
