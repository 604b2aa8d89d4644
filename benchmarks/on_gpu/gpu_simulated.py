"""A device that is not there: tensors without data, counted as the CUDA allocator would.

A real Trainer trains on it. Tensors are torch's fake ones, on the CPU with `cuda_rules`; each
storage takes a block of `CachingAllocator`, and so do cuBLAS's workspaces. What kernels take beside
(cuDNN) and what is outside torch's allocator is not there.
"""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch

from lightning_gpuprof.adapters.cuda_operators import cuda_rules
from lightning_gpuprof.adapters.fake_tensors import fake_tensors
from lightning_gpuprof.memory.device import MemoryReading
from lightning_gpuprof.trials.caching_allocator import CachingAllocator, PoolBlock
from lightning_gpuprof.trials.predict import cublas_workspace_bytes
from lightning_gpuprof.trials.storage_tracker import StorageTracker

OutOfMemory = getattr(torch, "OutOfMemoryError", None) or torch.cuda.OutOfMemoryError


class Pool(CachingAllocator):
    """The allocator with what a card's counts beside."""

    def __init__(self, capacity_bytes: float) -> None:
        super().__init__(capacity_bytes)
        self.peak_allocated_bytes = self.retries = self.ooms = 0

    def allocate(self, requested: int) -> PoolBlock:
        block = super().allocate(requested)
        self.peak_allocated_bytes = max(self.peak_allocated_bytes, self.allocated_bytes)
        return block

    def _release_cached(self) -> None:
        self.retries += 1
        super()._release_cached()

    @property
    def split_bytes(self) -> int:
        """Free bytes in segments that are partly in use."""
        free = [block for _, _, block in (*self._free[True], *self._free[False])]
        return sum(block.size for block in free if block.previous or block.next)


class Simulated(StorageTracker):
    """Memory of a bounded size, such as an NVIDIA card of compute capability 9.0 has."""

    accelerator, steps, long_steps = "cpu", 14, 10
    compute_capability = 9.0

    def __init__(self, cap_bytes: int) -> None:
        super().__init__()
        self.cap_bytes = cap_bytes
        self._pool = Pool(cap_bytes)
        self._handles: dict[int, PoolBlock] = {}

    def probe(self, device: torch.device) -> "Simulated":
        """Return what reads its memory: itself."""
        return self

    @contextmanager
    def training(self) -> Iterator[None]:
        """Begin with an empty device, on which all that is made until the end lies."""
        gc.collect()  # what is left of the last fit would end in this one's blocks
        self._pool, self._handles = Pool(self.cap_bytes), {}
        for collection in (self._live, self._release_refs, self.storages, self.events):
            collection.clear()
        for _ in range(2):
            self._pool.allocate(cublas_workspace_bytes(self.compute_capability))
        with _without_values(), fake_tensors(), cuda_rules(), self:
            yield
        gc.collect()

    def _track(self, storage: torch.UntypedStorage) -> int:
        before = len(self.storages)
        index = super()._track(storage)
        if index == before and storage.nbytes():
            try:
                self._handles[index] = self._pool.allocate(storage.nbytes())
            except MemoryError as error:
                self._pool.ooms += 1
                raise OutOfMemory(f"the simulated device is full: {error}") from None
        return index

    def _note_release(self, key: int, reference: object) -> None:
        index = self._live.get(key)
        if index is not None:
            super()._note_release(key, reference)
            if index in self._handles:
                self._pool.free(self._handles.pop(index))

    def read(self) -> MemoryReading:
        """Return the memory now; peaks are since the device was empty."""
        pool = self._pool
        return MemoryReading(
            allocated_bytes=pool.allocated_bytes,
            reserved_bytes=pool.reserved_bytes,
            peak_allocated_bytes=pool.peak_allocated_bytes,
            peak_reserved_bytes=pool.peak_reserved_bytes,
            split_bytes=pool.split_bytes,
            free_bytes=max(0, self.cap_bytes - pool.reserved_bytes),
            total_bytes=self.cap_bytes,
            alloc_retries=pool.retries,
            ooms=pool.ooms,
        )


@contextmanager
def _without_values() -> Iterator[None]:
    """Let a Trainer do with tensors that have no values, and cannot be moved."""

    def stay(self: torch.nn.Module, fn: Callable[..., Any], recurse: bool = True) -> Any:
        return self

    with (
        patch.object(torch.nn.Module, "_apply", stay),
        patch.object(torch.Tensor, "item", lambda tensor: 1),
    ):
        yield
