"""The history of torch's allocator, and its failed allocations.

Private names of torch 2.1 to 2.13: `torch.cuda.memory._record_memory_history` and `_snapshot`;
`_set_memory_metadata` (from 2.10) and `torch._C._cuda_attach_out_of_memory_observer`, without which
there are no notes and no news of a failed allocation.
"""

import os
import pickle
from collections.abc import Callable
from typing import Any
from weakref import WeakMethod

import torch

OomListener = Callable[[int, int, int, int], None]
"""Called with device index, bytes asked for, device total and device free, before the error."""
PROTOCOL = 4
"""The highest that pytorch.org/memory_viz reads; Python's default is 5 from 3.14 on."""


class CudaMemoryHistory:
    """The history of torch's CUDA or HIP allocator: a ring of events in host memory.

    There is one per process. It keeps Python stacks only: with C++ stacks a dump takes minutes.
    """

    def __init__(self, *, cuda: Any = torch.cuda, c: Any = torch._C) -> None:
        self._memory = cuda.memory
        self._c = c

    def start(self, max_entries: int) -> None:
        """Begin to keep the last `max_entries` events, each with its Python stack."""
        self._memory._record_memory_history(
            "all", context="alloc", stacks="python", max_entries=max_entries
        )

    def stop(self) -> None:
        """Keep no more events."""
        self._memory._record_memory_history(None)
        self.note("")

    def note(self, text: str) -> None:
        """Attach a note to every allocation from now on, where torch can (2.10)."""
        set_metadata = getattr(self._memory, "_set_memory_metadata", None)
        if set_metadata is not None:
            set_metadata(text)

    def dump(self, path: str) -> None:
        """Write state and history as a pickle; a dump cut short leaves no file of that name."""
        os.makedirs(os.path.dirname(path), exist_ok=True)
        part = f"{path}.part"
        snapshot = self._memory._snapshot()
        with open(part, "wb") as file:
            pickle.dump(snapshot, file, protocol=PROTOCOL)
        os.replace(part, path)

    def listen_for_oom(self, listener: OomListener) -> bool:
        """Call a bound method at every failed allocation; False where torch cannot."""
        attach = getattr(self._c, "_cuda_attach_out_of_memory_observer", None)
        if attach is None:
            return False
        if self._c not in _ATTACHED:
            # torch cannot detach an observer: one function stays and calls the listeners.
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
    """Return the history of torch's own allocator on a GPU, None for any other."""
    if device.type != "cuda" or cuda.memory.get_allocator_backend() != "native":
        return None
    return CudaMemoryHistory(cuda=cuda)
