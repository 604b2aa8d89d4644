"""Predicts a training step's memory by running it on tensors that have shapes and no data.

No GPU is used and nothing large is allocated. Two steps run, since the first has no optimizer
state and no gradients from before.
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
from lightning_gpuprof.adapters.fake_tensors import fake_tensors, faked, value_errors
from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.trials.caching_allocator import least_capacity, replay
from lightning_gpuprof.trials.live_bytes import Block, LiveBytes
from lightning_gpuprof.trials.model import Made, call, check, make_optimizer, train_step

CUBLAS_WORKSPACE_BYTES, _HOPPER_WORKSPACE_BYTES = (2 * 4096 + 8 * 16) * 1024, 8 * 4096 * 1024
"""What torch gives each cuBLAS handle by default (`parseChosenWorkspaceSize` in
`aten/src/ATen/cuda/CublasHandlePool.cpp`)."""
_STEPS = 2
_HANDLES = 2
"""cuBLAS has one handle for the thread of forward and one for autograd's."""
_ON_HOST = "host"
"""The kind of the optimizers' step counters, which stay on the host unless fused."""
_NOT_THE_USERS = tuple(
    os.path.dirname(str(module.__file__)) for module in (torch, lightning_gpuprof)
)


@dataclass(frozen=True)
class PlanPoint:
    """The predicted memory of one training step at one batch size, in bytes.

    With less than `least_capacity_bytes` the step fails; from there to `peak_reserved_bytes` it
    fits after retries. `exact_bytes` are the requested sizes of what lives through a step.
    """

    batch_size: int
    peak_allocated_bytes: int
    peak_reserved_bytes: int
    least_capacity_bytes: int
    peak_phase: str
    exact_bytes: dict[str, int]
    optimizer: str


def cublas_workspace_bytes(compute_capability: float | None) -> int:
    """Return the workspace of a cuBLAS handle: 32 MiB from Hopper on, else 8.1 MiB.

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
    """Predict the memory of a training step at each batch size; see `plan` for the arguments.

    `make` is called once for each size; `workspace_bytes` are those of each cuBLAS handle.
    """
    check(precision, list(batch_sizes))
    return [_point(make, size, precision, workspace_bytes) for size in batch_sizes]


def run_steps(
    made: Made, batch_size: int, *, precision: str, live: LiveBytes
) -> torch.optim.Optimizer:
    """Run two CPU training steps under `live`, already entered; returns the optimizer."""
    model = made.model.train()
    live.mark(list(model.parameters()), "parameters")
    live.mark(list(model.buffers()), "buffers")
    used = make_optimizer(model)
    for _ in range(_STEPS):
        live.phase = "forward"
        batch = made.batch(batch_size)
        live.mark(batch, "inputs")
        with _reading_no_values(model):
            train_step(made, batch, used, precision, partial(setattr, live, "phase"))
        del batch
        live.mark([parameter.grad for parameter in model.parameters()], "gradients")
        states = list(used.state.values())
        live.mark([state.get("step") for state in states], _ON_HOST)
        live.mark([list(state.values()) for state in states], "optimizer_state")
    live.phase = "end"
    return used


def _point(make: Callable[[], Any], size: int, precision: str, workspace_bytes: int) -> PlanPoint:
    fakes = fake_tensors()
    with warnings.catch_warnings():
        # `deepcopy` of a module asks each tensor for its address; a fake has none.
        warnings.filterwarnings("ignore", "Accessing the data pointer of FakeTensor")
        made = _made(make, fakes)
        made = replace(made, model=faked(made.model, fakes))
        with fakes, cuda_rules(), LiveBytes() as live:
            used = run_steps(made, size, precision=precision, live=live)
            # Read while model and optimizer live: their release is no part of a step.
            events, blocks = list(live.events), list(live.blocks)
    workspaces = [(-1 - handle, workspace_bytes) for handle in range(_HANDLES)]
    on_device = [block.size > 0 and block.kind != _ON_HOST for block in blocks]
    kept = [*workspaces, *(event for event in events if on_device[event[0]])]
    footprint = replay(kept)
    highest = kept[footprint.peak_index][0]
    return PlanPoint(
        batch_size=size,
        peak_allocated_bytes=footprint.peak_allocated_bytes,
        peak_reserved_bytes=footprint.peak_reserved_bytes,
        least_capacity_bytes=least_capacity(kept, footprint),
        peak_phase=blocks[highest].born if highest >= 0 else "setup",
        exact_bytes=_exact(blocks),
        optimizer=type(used).__name__,
    )


def _made(make: Callable[[], Any], fakes: AbstractContextManager[Any]) -> Made:
    """Call `make()` on fakes, which cost no memory; where that fails, on real tensors."""
    try:
        with fakes:
            return call(make)
    except (RuntimeError, TypeError, AttributeError, NotImplementedError):
        # Lazy modules, numpy and checkpoints cannot always be faked. An error of the model's own
        # comes up again here.
        return call(make)


@contextmanager
def _reading_no_values(model: torch.nn.Module) -> Iterator[None]:
    """Say where a model reads a tensor's value, which fake tensors do not have."""
    try:
        yield
    except value_errors() as error:
        frames = traceback.extract_tb(error.__traceback__)
        own = [frame for frame in frames if not frame.filename.startswith(_NOT_THE_USERS)]
        place = f"{own[-1].filename}:{own[-1].lineno}: {own[-1].line}" if own else str(error)
        raise ConfigError(
            f"{type(model).__name__} reads values of its tensors ({place}); a plan runs on "
            "tensors without values. Leave that out in the model that make() returns (a metric, "
            "an .item(), a mask by value)."
        ) from error


def _exact(blocks: Sequence[Block]) -> dict[str, int]:
    """Sum the requested sizes of the memory that lives through a step.

    Activations are made in forward and live until backward begins.
    """
    sums = dict.fromkeys(("parameters", "gradients", "optimizer_state", "activations"), 0)
    for block in blocks:
        outlives = block.born == "forward" and block.died not in ("forward", "zero_grad")
        kind = block.kind or ("activations" if outlives else "other")
        if kind in sums and not (kind == "gradients" and block.died is not None):
            sums[kind] += block.size
    sums["activations"] //= _STEPS
    return sums
