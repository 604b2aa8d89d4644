"""Predicts the memory of a training step by running it on tensors that have shapes but no data.

No GPU is used and nothing large is allocated. Two steps are run, because the first step begins
without gradients and without optimizer state.
"""

import os
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch

import lightning_gpuprof
from lightning_gpuprof.adapters.cuda_operators import cuda_rules
from lightning_gpuprof.adapters.fake_tensors import FloatReads, fake_tensors, faked, value_errors
from lightning_gpuprof.adapters.lightning import share_trainer
from lightning_gpuprof.adapters.metrics import stop_metrics
from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.trials.caching_allocator import least_capacity, replay
from lightning_gpuprof.trials.model import (
    ModelWithBatches,
    call_make,
    check_arguments,
    make_optimizer,
    train_step,
)
from lightning_gpuprof.trials.storage_tracker import StorageTracker, TrackedStorage

CUBLAS_WORKSPACE_BYTES = (2 * 4096 + 8 * 16) * 1024
"""The workspace that torch gives every cuBLAS handle by default (`parseChosenWorkspaceSize` in
`aten/src/ATen/cuda/CublasHandlePool.cpp`)."""
_HOPPER_WORKSPACE_BYTES = 8 * 4096 * 1024
_STEPS = 2
_HANDLES = 2
"""The thread that runs forward and the thread of autograd each have a handle of cuBLAS."""
_ON_HOST = "host"
"""The kind of the optimizers' step counters, which are on the host unless the optimizer is
fused."""
_NOT_USER_CODE = tuple(
    os.path.dirname(str(module.__file__)) for module in (torch, lightning_gpuprof)
)


@dataclass(frozen=True)
class PlanPoint:
    """The predicted memory of a training step at a batch size, in bytes."""

    batch_size: int
    peak_allocated_bytes: int
    peak_reserved_bytes: int
    least_capacity_bytes: int
    """With less device memory the step fails. Between this and `peak_reserved_bytes` it fits after
    the allocator has released its cache."""
    peak_phase: str
    exact_bytes: dict[str, int]
    """The requested sizes of parameters, gradients, optimizer state and activations."""
    optimizer: str
    float_reads: int = 0
    """How many numbers the steps have read of float tensors, for which 1.0 stood in."""


def cublas_workspace_bytes(compute_capability: float | None) -> int:
    """Return the size of a cuBLAS handle's workspace: 32 MiB from Hopper on, else 8.1 MiB.

    >>> cublas_workspace_bytes(9.0) // 2**20, cublas_workspace_bytes(8.9) == CUBLAS_WORKSPACE_BYTES
    (32, True)
    """
    return _HOPPER_WORKSPACE_BYTES if (compute_capability or 0) >= 9 else CUBLAS_WORKSPACE_BYTES


def predict(
    make: Callable[[], Any],
    batch_sizes: Sequence[int],
    *,
    precision: str = "32-true",
    workspace_bytes: int = CUBLAS_WORKSPACE_BYTES,
) -> list[PlanPoint]:
    """Predict the memory of a training step at every batch size.

    See `plan` for the arguments. `make` is called once per size; `workspace_bytes` is the size of
    a cuBLAS handle's workspace.
    """
    check_arguments(precision, list(batch_sizes))
    return [_predict_point(make, size, precision, workspace_bytes) for size in batch_sizes]


def run_steps(
    source: ModelWithBatches, batch_size: int, *, precision: str, tracker: StorageTracker
) -> torch.optim.Optimizer:
    """Run two training steps on the CPU, under a tracker that has been entered.

    Returns the optimizer, whose state must not be released before the tracker's events are read.
    """
    model = source.model.train()
    tracker.mark(list(model.parameters()), "parameters")
    tracker.mark(list(model.buffers()), "buffers")
    optimizer = make_optimizer(model)
    for _ in range(_STEPS):
        tracker.phase = "forward"
        batch = source.batch(batch_size)
        tracker.mark(batch, "inputs")
        with _values_refused(model):
            train_step(model, batch, optimizer, precision, partial(setattr, tracker, "phase"))
        del batch
        tracker.mark([parameter.grad for parameter in model.parameters()], "gradients")
        states = list(optimizer.state.values())
        tracker.mark([state.get("step") for state in states], _ON_HOST)
        tracker.mark([list(state.values()) for state in states], "optimizer_state")
    tracker.phase = "end"
    return optimizer


def _predict_point(
    make: Callable[[], Any], batch_size: int, precision: str, workspace_bytes: int
) -> PlanPoint:
    fakes = fake_tensors()
    with warnings.catch_warnings():
        # `deepcopy` of a module reads the address of every tensor, and a fake tensor has none.
        warnings.filterwarnings("ignore", "Accessing the data pointer of FakeTensor")
        source = _make_with_fakes(make, fakes)
        source = replace(source, model=_faked(source.model, fakes))
        with fakes, cuda_rules(), FloatReads() as float_reads, StorageTracker() as tracker:
            optimizer = run_steps(source, batch_size, precision=precision, tracker=tracker)
            # Copied while model and optimizer exist: their release is not part of a step.
            events, storages = list(tracker.events), list(tracker.storages)
    # The workspaces have negative ids, since the ids of storages are their indices.
    workspaces = [(-1 - handle, workspace_bytes) for handle in range(_HANDLES)]
    on_device = [storage.size > 0 and storage.kind != _ON_HOST for storage in storages]
    device_events = [*workspaces, *(event for event in events if on_device[event[0]])]
    footprint = replay(device_events)
    last_before_peak = device_events[footprint.peak_index][0]
    return PlanPoint(
        batch_size=batch_size,
        peak_allocated_bytes=footprint.peak_allocated_bytes,
        peak_reserved_bytes=footprint.peak_reserved_bytes,
        least_capacity_bytes=least_capacity(device_events, footprint),
        peak_phase=storages[last_before_peak].allocated_in if last_before_peak >= 0 else "setup",
        exact_bytes=_exact_bytes(storages),
        optimizer=type(optimizer).__name__,
        float_reads=float_reads.count,
    )


def _make_with_fakes(
    make: Callable[[], Any], fakes: AbstractContextManager[Any]
) -> ModelWithBatches:
    """Call `make()` with fake tensors, which need no memory, or with real ones if that fails."""
    try:
        with fakes:
            return call_make(make)
    except (RuntimeError, TypeError, AttributeError, NotImplementedError):
        # Lazy modules, numpy and checkpoints do not always work with fake tensors. If the error is
        # the model's own, this second call raises it again.
        return call_make(make)


def _faked(model: torch.nn.Module, fakes: Any) -> torch.nn.Module:
    """Return a copy of a model on fake tensors, which logs nothing and updates no metric."""
    copy = faked(model, fakes)
    share_trainer(model, copy)
    stop_metrics(copy)
    return copy


@contextmanager
def _values_refused(model: torch.nn.Module) -> Iterator[None]:
    """Raise an error that says where a model reads a tensor's value, which fake tensors lack."""
    try:
        yield
    except value_errors() as error:
        frames = traceback.extract_tb(error.__traceback__)
        own = [frame for frame in frames if not frame.filename.startswith(_NOT_USER_CODE)]
        place = f"{own[-1].filename}:{own[-1].lineno}: {own[-1].line}" if own else str(error)
        raise ConfigError(
            f"{type(model).__name__} reads values of its tensors ({place}), but a plan runs on "
            "tensors without values. Leave out of the step what reads them (a mask by value, an "
            "`if` on a tensor), or pass --model with a model that avoids it."
        ) from error


def _exact_bytes(storages: Sequence[TrackedStorage]) -> dict[str, int]:
    """Return the requested sizes of parameters, gradients, optimizer state and activations.

    Activations are what is allocated in forward and released in backward or later. Gradients count
    once: those of the last step, which are never released.
    """
    sums = dict.fromkeys(("parameters", "gradients", "optimizer_state", "activations"), 0)
    for storage in storages:
        is_activation = storage.allocated_in == "forward" and storage.released_in not in (
            "forward",
            "zero_grad",
        )
        kind = storage.kind or ("activations" if is_activation else "other")
        if kind in sums and not (kind == "gradients" and storage.released_in is not None):
            sums[kind] += storage.size
    sums["activations"] //= _STEPS
    return sums
