"""Records the device allocator's history and dumps it; on a device without one there is none."""

import os
import pickle
from collections.abc import Callable, Iterable
from typing import Any, Protocol
from weakref import WeakMethod

import torch

from lightning_gpuprof.probes.memory.memory import NATIVE, allocator_backend

OomListener = Callable[[int, int, int, int], None]
"""Called with device index, bytes asked for, device total and device free, before the error."""
PROTOCOL = 4
"""The highest that pytorch.org/memory_viz reads. torch's own `_dump_snapshot` takes Python's
default, which is 5 from Python 3.14 on."""


class MemoryHistory(Protocol):
    """The allocator's history; tests pass a fake."""

    def start(self, max_entries: int) -> None:
        """Begin to keep the last `max_entries` events, each with its Python stack."""
        ...

    def stop(self) -> None:
        """Keep no more events."""
        ...

    def note(self, text: str) -> None:
        """Leave a note with every allocation from now on, where torch can."""
        ...

    def dump(self, path: str) -> None:
        """Write state and history as a pickle that pytorch.org/memory_viz opens."""
        ...

    def listen_for_oom(self, listener: OomListener) -> bool:
        """Call a bound method at every failed allocation; False where torch cannot."""
        ...


class CudaMemoryHistory:
    """`MemoryHistory` of torch's CUDA or HIP allocator.

    Python stacks only: with C++ ones a dump takes minutes. The history is a ring of fixed
    length, in host memory. It is one per process, not per device or callback.

    Args:
        cuda: Stands in for `torch.cuda` in tests.
        c: Stands in for `torch._C` in tests.
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
        """Leave a note with every allocation from now on, where torch can (2.10)."""
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
            # torch has no way to detach: one function stays, and asks who listens.
            attach(_tell_listeners)
            _ATTACHED.append(self._c)
        _LISTENERS[:] = [known for known in _LISTENERS if known() is not None]
        _LISTENERS.append(WeakMethod(listener))
        return True


_ATTACHED: list[Any] = []
_LISTENERS: list[WeakMethod[OomListener]] = []


def _tell_listeners(device: int, requested: int, total: int, free: int) -> None:
    for reference in list(_LISTENERS):
        listener = reference()
        if listener is not None:
            listener(device, requested, total, free)


def memory_history(device: torch.device, *, cuda: Any = torch.cuda) -> MemoryHistory | None:
    """Return the history of a device's allocator, or None where there is none.

    Only torch's own allocator has one.

    >>> memory_history(torch.device("cpu")) is None
    True
    """
    kept = device.type == "cuda" and allocator_backend(cuda) == NATIVE
    return CudaMemoryHistory(cuda=cuda) if kept else None


def kind_addresses(
    model: torch.nn.Module, optimizers: Iterable[torch.optim.Optimizer]
) -> dict[str, list[int]]:
    """Return where parameters, gradients and optimizer state lie, by kind."""
    states = [value for one in optimizers for value in one.state.values()]
    values = [value for state in states if isinstance(state, dict) for value in state.values()]
    return {
        "parameters": _addresses([*model.parameters(), *model.buffers()]),
        "gradients": _addresses(one.grad for one in model.parameters()),
        "optimizer_state": _addresses(values),
    }


def _addresses(tensors: Iterable[Any]) -> list[int]:
    found = {
        tensor.untyped_storage().data_ptr()
        for tensor in tensors
        if isinstance(tensor, torch.Tensor) and tensor.layout is torch.strided
    }
    return sorted(found - {0})
