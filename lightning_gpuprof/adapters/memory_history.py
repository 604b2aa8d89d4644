"""The history of torch's allocator, and calls at its failed allocations.

Private names in torch 2.1 to 2.13, and what happens without them:
    torch.cuda.memory._record_memory_history and ._snapshot: an error switches snapshots off
    torch.cuda.memory._set_memory_metadata (from 2.10): allocations have no notes
    torch._C._cuda_attach_out_of_memory_observer: failed allocations are not noticed
"""

import os
import pickle
from collections.abc import Callable
from typing import Any
from weakref import WeakMethod

import torch

OomListener = Callable[[int, int, int, int], None]
"""Called before the error is raised, with the device's index, the bytes that were requested, and
the device's total and free bytes."""
PROTOCOL = 4
"""The highest pickle protocol that pytorch.org/memory_viz reads. From 3.14 on, Python's default is
5."""


class CudaMemoryHistory:
    """The history of torch's CUDA or HIP allocator, which is a ring of events in host memory.

    A process has only one history. It holds Python stacks only, since a dump with C++ stacks takes
    minutes.
    """

    def __init__(self, *, cuda: Any = torch.cuda, c: Any = torch._C) -> None:
        self._memory = cuda.memory
        self._c = c

    def start(self, max_entries: int) -> None:
        """Begin to record the last `max_entries` events with their Python stacks."""
        self._memory._record_memory_history(
            "all", context="alloc", stacks="python", max_entries=max_entries
        )

    def stop(self) -> None:
        """End the recording."""
        self._memory._record_memory_history(None)
        self.note("")

    def note(self, text: str) -> None:
        """Attach a note to every allocation from now on, if torch supports it (2.10)."""
        set_metadata = getattr(self._memory, "_set_memory_metadata", None)
        if set_metadata is not None:
            set_metadata(text)

    def dump(self, path: str) -> None:
        """Write state and history as a pickle. The file has its name only once it is complete."""
        os.makedirs(os.path.dirname(path), exist_ok=True)
        part = f"{path}.part"
        snapshot = self._memory._snapshot()
        with open(part, "wb") as file:
            pickle.dump(snapshot, file, protocol=PROTOCOL)
        os.replace(part, path)

    def listen_for_oom(self, listener: OomListener) -> bool:
        """Call a bound method at every failed allocation. Return whether torch supports this."""
        attach = getattr(self._c, "_cuda_attach_out_of_memory_observer", None)
        if attach is None:
            return False
        if self._c not in _ATTACHED:
            # Torch cannot detach an observer, so that this function stays and calls the listeners.
            attach(_call_listeners)
            _ATTACHED.append(self._c)
        _LISTENERS[:] = [reference for reference in _LISTENERS if reference() is not None]
        _LISTENERS.append(WeakMethod(listener))
        return True


_ATTACHED: list[Any] = []
_LISTENERS: list[WeakMethod[OomListener]] = []


def _call_listeners(device: int, requested: int, total: int, free: int) -> None:
    for reference in list(_LISTENERS):
        listener = reference()
        if listener is not None:
            listener(device, requested, total, free)


def memory_history(device: torch.device, *, cuda: Any = torch.cuda) -> CudaMemoryHistory | None:
    """Return the history of torch's own allocator on a GPU, or None for any other allocator."""
    if device.type != "cuda" or cuda.memory.get_allocator_backend() != "native":
        return None
    return CudaMemoryHistory(cuda=cuda)
