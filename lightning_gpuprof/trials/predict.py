"""Predicts a training step's memory by running it on tensors that have shapes and no data.

No GPU is used and nothing large is allocated. Two steps run, since the first has no optimizer
state and no gradients from before.
"""

import os
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import torch

import lightning_gpuprof
from lightning_gpuprof.adapters.cuda_operators import cuda_rules
from lightning_gpuprof.adapters.fake_tensors import fake_tensors, faked, value_errors
from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.trials.caching_allocator import block_bytes, least_capacity, replay
from lightning_gpuprof.trials.live_bytes import Block, LiveBytes
from lightning_gpuprof.trials.messages import CUBLAS_WORKSPACE_BYTES, KINDS, PlanPoint
from lightning_gpuprof.trials.step import (
    check_precision,
    in_precision,
    make_optimizer,
    to_precision,
    train_step,
)
from lightning_gpuprof.trials.user_model import Made, call

_STEPS = 2
_HANDLES = 2
"""cuBLAS has one handle for the thread of forward and one for autograd's."""
_ON_HOST = "host"
"""The kind of the optimizers' step counters, which stay on the host unless fused."""
_ASSUMED = (
    "The CUDA context, loaded kernels and NCCL buffers lie outside torch's allocator and are not "
    "counted.",
    "Kernels' own workspaces (cuDNN's convolutions and recurrent layers, sorts) are not counted.",
)
_NOT_THE_USERS = tuple(
    os.path.dirname(str(module.__file__)) for module in (torch, lightning_gpuprof)
)


def predict(
    make: Callable[[], Any],
    batch_sizes: Sequence[int],
    *,
    optimizer: str = "model",
    precision: str = "32-true",
    workspace_bytes: int = CUBLAS_WORKSPACE_BYTES,
) -> list[PlanPoint]:
    """Predict the memory of a training step at each batch size.

    Args:
        make: See `user_model.CONTRACT`; called once for each size, under fake tensors.
        batch_sizes: Samples per step and device.
        optimizer: One of `OPTIMIZERS`; "model" asks `configure_optimizers`.
        precision: As Lightning's Trainer names it; one of `PRECISIONS`.
        workspace_bytes: Of each cuBLAS handle, see `messages.cublas_workspace_bytes`.

    Raises:
        ConfigError: An argument or the model cannot be planned with.
    """
    check_precision(precision)
    if not batch_sizes or min(batch_sizes) < 1:
        raise ConfigError(f"batch_sizes={list(batch_sizes)}: give sizes of 1 or more.")
    return [_point(make, size, optimizer, precision, workspace_bytes) for size in batch_sizes]


def run_steps(
    made: Made, batch_size: int, *, optimizer: str, precision: str, live: LiveBytes
) -> torch.optim.Optimizer:
    """Run two CPU training steps under `live`, already entered; returns the optimizer."""
    model = made.model.train()
    live.mark(list(model.parameters()), "parameters")
    live.mark(list(model.buffers()), "buffers")
    used = make_optimizer(model, optimizer)
    for _ in range(_STEPS):
        live.phase = "forward"
        batch = in_precision(made.batch(batch_size), precision)
        live.mark(batch, "inputs")
        with _reading_no_values(model):
            train_step(made, batch, used, precision, begin=partial(setattr, live, "phase"))
        del batch
        live.mark([parameter.grad for parameter in model.parameters()], "gradients")
        states = list(used.state.values())
        live.mark([state.get("step") for state in states], _ON_HOST)
        live.mark([list(state.values()) for state in states], "optimizer_state")
    live.phase = "end"
    return used


def _point(
    make: Callable[[], Any], size: int, optimizer: str, precision: str, workspace_bytes: int
) -> PlanPoint:
    fakes = fake_tensors()
    with warnings.catch_warnings():
        # `deepcopy` of a module asks each tensor for its address; a fake has none.
        warnings.filterwarnings("ignore", "Accessing the data pointer of FakeTensor")
        made = _made(make, fakes)
        made = replace(made, model=faked(made.model, fakes))
        with fakes, cuda_rules():
            to_precision(made.model, precision)
            with LiveBytes() as live:
                used = run_steps(made, size, optimizer=optimizer, precision=precision, live=live)
                # Read while model and optimizer live: their release is no part of a step.
                events, blocks = list(live.events), list(live.blocks)
    kept = [
        *((index, workspace_bytes) for index in range(len(blocks), len(blocks) + _HANDLES)),
        *(event for event in events if _on_device(blocks[event[0]])),
    ]
    footprint = replay(kept)
    kinds, phase = _at_peak(blocks, kept[: footprint.peak_index + 1])
    return PlanPoint(
        batch_size=size,
        peak_allocated_bytes=footprint.peak_allocated_bytes,
        peak_reserved_bytes=footprint.peak_reserved_bytes,
        least_capacity_bytes=least_capacity(kept, footprint),
        peak_phase=phase,
        kind_bytes=kinds,
        exact_bytes=_exact(blocks),
        optimizer=type(used).__name__,
        assumptions=(
            f"Two cuBLAS workspaces of {workspace_bytes / 2**20:.1f} MiB are counted (torch's "
            "default: 8.1 MiB, from Hopper on 32 MiB; CUBLAS_WORKSPACE_CONFIG changes it).",
            *_ASSUMED,
        ),
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


def _on_device(block: Block) -> bool:
    return block.size > 0 and block.kind != _ON_HOST


def _at_peak(
    blocks: Sequence[Block], events: Sequence[tuple[int, int]]
) -> tuple[dict[str, int], str]:
    """Return the bytes of each kind after the events, and the phase of the last of them."""
    alive: dict[int, int] = {}
    for index, size in events:
        if size < 0:
            del alive[index]
        else:
            alive[index] = block_bytes(size)
    kinds = dict.fromkeys(KINDS, 0)
    for index, size in alive.items():
        kinds[_kind(blocks[index]) if index < len(blocks) else "workspace"] += size
    last = events[-1][0]
    return kinds, blocks[last].born if last < len(blocks) else "setup"


def _kind(block: Block) -> str:
    outlives = block.born == "forward" and block.died not in ("forward", "zero_grad")
    return block.kind or ("activations" if outlives else "other")


def _exact(blocks: Sequence[Block]) -> dict[str, int]:
    """Sum the requested sizes of the memory that lives through a step."""
    sums = dict.fromkeys(("parameters", "gradients", "optimizer_state", "activations"), 0)
    for block in blocks:
        kind = _kind(block)
        if kind in sums and not (kind == "gradients" and block.died is not None):
            sums[kind] += block.size
    sums["activations"] //= _STEPS
    return sums
