"""Predicts a training step's memory by running it on tensors that have shapes and no data.

No GPU is used and nothing large is allocated. Two steps run, since the first has no optimizer
state and no gradients from before, in Lightning's order: `training_step`, then `zero_grad`, then
backward, then the optimizer's step. So the gradients of one step are still there in the next
one's forward.
"""

import copy
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import torch

from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.probes.batch_size.caching_allocator import (
    block_bytes,
    least_capacity,
    replay,
)
from lightning_gpuprof.probes.batch_size.cuda_rules import cuda_rules
from lightning_gpuprof.probes.batch_size.live_bytes import Block, LiveBytes, fake_tensors
from lightning_gpuprof.probes.batch_size.plan_model import Made, call
from lightning_gpuprof.probes.batch_size.plan_step import ON_HOST, STEPS, run_step, to_precision
from lightning_gpuprof.probes.batch_size.plan_types import (
    CUBLAS_WORKSPACE_BYTES,
    KINDS,
    PRECISIONS,
    PlanPoint,
)

_HANDLES = 2
"""One for the thread that runs forward, one for autograd's."""

_ASSUMED = (
    "The CUDA context, loaded kernels and NCCL buffers lie outside torch's allocator and are not "
    "counted.",
    "Kernels' own workspaces (cuDNN convolutions, sorts) are not counted.",
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
        make: See `plan_model.CONTRACT`; called once for each size, under fake tensors.
        batch_sizes: Samples per step and device.
        optimizer: One of `OPTIMIZERS`; "model" asks `configure_optimizers`.
        precision: As Lightning's Trainer names it; one of `PRECISIONS`.
        workspace_bytes: Of each cuBLAS handle, see `plan_types.cublas_workspace_bytes`.

    Raises:
        ConfigError: An argument or the model cannot be planned with.
    """
    if precision not in PRECISIONS:
        raise ConfigError(f"precision={precision!r} is not known. Pass one of {PRECISIONS}.")
    bad = [size for size in batch_sizes if size < 1]
    if bad or not batch_sizes:
        raise ConfigError(f"batch_sizes={list(batch_sizes)}: give sizes of 1 or more.")
    return [_point(make, size, optimizer, precision, workspace_bytes) for size in batch_sizes]


def _point(
    make: Callable[[], Any], size: int, optimizer: str, precision: str, workspace_bytes: int
) -> PlanPoint:
    fakes = fake_tensors()
    with warnings.catch_warnings():
        # Copying a module asks each tensor for its address; a fake one has none.
        warnings.filterwarnings("ignore", "Accessing the data pointer of FakeTensor")
        made = _made(make, fakes)
        made = replace(made, model=_faked(made.model, fakes))
        with fakes, cuda_rules():
            to_precision(made.model, precision)
            with LiveBytes() as live:
                used = run_step(made, size, optimizer=optimizer, precision=precision, live=live)
                # Read while model and optimizer live; their end is no part of the step.
                events, blocks = list(live.events), list(live.blocks)
        notes = (_workspaces(workspace_bytes), *_ASSUMED, *_notes(made))
    name = type(used).__name__
    return summarize(
        size, blocks, events, optimizer=name, assumptions=notes, workspace_bytes=workspace_bytes
    )


def _made(make: Callable[[], Any], fakes: AbstractContextManager[Any]) -> Made:
    """Call `make()` on fakes, which cost no memory; where that fails, on real tensors."""
    try:
        with fakes:
            return call(make)
    except (RuntimeError, TypeError, AttributeError, NotImplementedError):
        # Lazy modules, numpy, a checkpoint: not all that builds a model can be faked. An error
        # of the model's own comes up again here.
        return call(make)


def summarize(
    batch_size: int,
    blocks: Sequence[Block],
    events: Iterable[tuple[int, int]],
    *,
    optimizer: str,
    assumptions: tuple[str, ...] = (),
    workspace_bytes: int = CUBLAS_WORKSPACE_BYTES,
) -> PlanPoint:
    """Replay the events of a step through the caching allocator, and split its peak by kind."""
    spaces = range(len(blocks), len(blocks) + _HANDLES)
    kept = [
        *((index, workspace_bytes) for index in spaces),
        *(event for event in events if blocks[event[0]].kind != ON_HOST),
    ]
    kept = [event for event in kept if event[0] >= len(blocks) or blocks[event[0]].size]
    footprint = replay(kept)
    kinds, phase = _at_peak(blocks, kept[: footprint.peak_index + 1])
    return PlanPoint(
        batch_size=batch_size,
        peak_allocated_bytes=footprint.peak_allocated_bytes,
        peak_reserved_bytes=footprint.peak_reserved_bytes,
        least_capacity_bytes=least_capacity(kept, footprint),
        peak_phase=phase,
        kind_bytes=kinds,
        exact_bytes=_exact(blocks),
        optimizer=optimizer,
        assumptions=assumptions,
    )


def _at_peak(
    blocks: Sequence[Block], events: Sequence[tuple[int, int]]
) -> tuple[dict[str, int], str]:
    alive: dict[int, int] = {}
    for index, size in events:
        if size < 0:
            del alive[index]
        else:
            alive[index] = block_bytes(size)
    kinds = dict.fromkeys(KINDS, 0)
    for index, size in alive.items():
        kinds["workspace" if index >= len(blocks) else _kind(blocks[index])] += size
    last = events[-1][0]
    return kinds, blocks[last].born if last < len(blocks) else "setup"


def _kind(block: Block) -> str:
    if block.kind is not None:
        return block.kind
    return "activations" if _outlives_forward(block) else "other"


def _outlives_forward(block: Block) -> bool:
    return block.born == "forward" and block.died not in ("forward", "zero_grad")


def _exact(blocks: Sequence[Block]) -> dict[str, int]:
    """Sum the sizes as asked for of what lives through a step."""
    sums = dict.fromkeys(("parameters", "gradients", "optimizer_state", "activations"), 0)
    for block in blocks:
        if block.kind in ("parameters", "optimizer_state"):
            sums[block.kind] += block.size
        elif block.kind == "gradients" and block.died is None:
            sums["gradients"] += block.size
        elif block.kind is None and _outlives_forward(block):
            # Both steps made them.
            sums["activations"] += block.size
    sums["activations"] //= STEPS
    return sums


def _faked(model: torch.nn.Module, fakes: Any) -> torch.nn.Module:
    """Return the model with fake parameters and buffers; one of real tensors is left as it is."""
    from torch._subclasses.fake_tensor import FakeTensor

    tensors = [*model.parameters(), *model.buffers()]
    if all(isinstance(one, FakeTensor) for one in tensors):
        return model
    # What the copy finds here it does not copy: the real data stays where it is.
    return copy.deepcopy(model, {id(one): _fake(one, fakes) for one in tensors})


def _fake(tensor: torch.Tensor, fakes: Any) -> torch.Tensor:
    fake: torch.Tensor = fakes.from_tensor(tensor.detach())
    if isinstance(tensor, torch.nn.Parameter):
        with fakes:
            return torch.nn.Parameter(fake, requires_grad=tensor.requires_grad)
    return fake


def _workspaces(each_bytes: int) -> str:
    return (
        f"Two cuBLAS workspaces of {each_bytes / 2**20:.1f} MiB are counted (torch's default: 8.1 "
        "MiB, from Hopper on 32 MiB; CUBLAS_WORKSPACE_CONFIG changes it)."
    )


def _notes(made: Made) -> Iterator[str]:
    recurrent = {type(one).__name__ for one in made.model.modules()} & {"LSTM", "GRU", "RNN"}
    if recurrent:
        yield f"cuDNN's reserve space is not known: {', '.join(sorted(recurrent))} is only a guess."
    if made.forward_only:
        yield (
            "There was no batch for training_step: forward(example_input_array) was run, with the "
            "sum of its output as the loss."
        )
