"""Follows every tensor storage from its allocation to its release, with a dispatch mode of torch.

Storages of fake tensors are followed like real ones. Memory that no operator returns, such as a
kernel's workspace, is not counted.
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
class TrackedStorage:
    """The requested bytes of a storage, and the phases in which it was allocated and released."""

    size: int
    allocated_in: str
    released_in: str | None = None
    kind: str | None = None
    """Set by `StorageTracker.mark`; None for intermediate results."""


class StorageTracker(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Records the order in which storages are allocated and released.

    Set `phase` to the name of the part of the step that runs. `events` holds pairs (index into
    `storages`, bytes), with -1 bytes for a release.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.phase = "setup"
        self.storages: list[TrackedStorage] = []
        self.events: list[tuple[int, int]] = []
        self._live: dict[int, int] = {}
        """The index of every storage that is allocated now, by its id."""
        self._release_refs: dict[int, weakref.ref[Any]] = {}

    def mark(self, tensors: Iterable[Any], kind: str) -> None:
        """Set the kind of the storages of nested tensors, unless it was set before."""
        for storage in _storages_in(tensors):
            tracked = self.storages[self._track(storage)]
            tracked.kind = tracked.kind or kind

    @override
    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        for storage in _storages_in(result):
            self._track(storage)
        return result

    def _track(self, storage: torch.UntypedStorage) -> int:
        """Return the index of a storage, which is new if it is not followed yet."""
        key = storage_id(storage)
        if (live_index := self._live.get(key)) is not None:
            return live_index
        index = len(self.storages)
        self.storages.append(TrackedStorage(storage.nbytes(), self.phase))
        self.events.append((index, storage.nbytes()))
        self._live[key] = index
        self._release_refs[key] = weakref.ref(storage, partial(self._note_release, key))
        return index

    def _note_release(self, key: int, _: object) -> None:
        index = self._live.pop(key)
        del self._release_refs[key]
        self.storages[index].released_in = self.phase
        self.events.append((index, -1))


def _storages_in(nested: Any) -> Iterator[torch.UntypedStorage]:
    tensors = (leaf for leaf in tree_leaves(nested) if isinstance(leaf, torch.Tensor))
    return (storage for tensor in tensors for storage in storages_of(tensor))
