"""Predicts a training step's memory by running it on tensors that have shapes and no data.

No GPU is used and nothing large is allocated. Two steps run, since the first has no optimizer
state and no gradients from before, in Lightning's order: `training_step`, then `zero_grad`, then
backward, then the optimizer's step. So the gradients of one step are still there in the next
step's forward.
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

from lightning_gpuprof.adapters.cuda_operators import cuda_rules
from lightning_gpuprof.adapters.fake_tensors import fake_tensors, faked
from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.trials.caching_allocator import block_bytes, least_capacity, replay
from lightning_gpuprof.trials.live_bytes import Block, LiveBytes
from lightning_gpuprof.trials.messages import (
    CUBLAS_WORKSPACE_BYTES,
    KINDS,
    PlanPoint,
    check_precision,
)
from lightning_gpuprof.trials.step import ON_HOST, STEPS, run_steps, to_precision
from lightning_gpuprof.trials.user_model import Made, call

_HANDLES = 2
"""cuBLAS has one handle for the thread of forward and one for autograd's."""
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
        notes = (_workspaces(workspace_bytes), *_ASSUMED, *_notes(made))
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
        assumptions=notes,
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


def _on_device(block: Block) -> bool:
    return block.size > 0 and block.kind != ON_HOST


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
    if block.kind is not None:
        return block.kind
    return "activations" if _outlives_forward(block) else "other"


def _outlives_forward(block: Block) -> bool:
    return block.born == "forward" and block.died not in ("forward", "zero_grad")


def _exact(blocks: Sequence[Block]) -> dict[str, int]:
    """Sum the requested sizes of the memory that lives through a step."""
    sums = dict.fromkeys(("parameters", "gradients", "optimizer_state", "activations"), 0)
    for block in blocks:
        if block.kind in ("parameters", "optimizer_state"):
            sums[block.kind] += block.size
        elif block.kind == "gradients" and block.died is None:
            sums["gradients"] += block.size
        elif block.kind is None and _outlives_forward(block):
            sums["activations"] += block.size  # of each of the `STEPS`
    sums["activations"] //= STEPS
    return sums


def _workspaces(each_bytes: int) -> str:
    return (
        f"Two cuBLAS workspaces of {each_bytes / 2**20:.1f} MiB are counted (torch's default: 8.1 "
        "MiB, from Hopper on 32 MiB; CUBLAS_WORKSPACE_CONFIG changes it)."
    )


def _notes(made: Made) -> Iterator[str]:
    recurrent = {type(module).__name__ for module in made.model.modules()} & {"LSTM", "GRU", "RNN"}
    if recurrent:
        yield f"cuDNN's reserve space is not known: {', '.join(sorted(recurrent))} is only a guess."
    if made.forward_only:
        yield (
            "There was no batch for training_step: forward(example_input_array) was run, with the "
            "sum of its output as the loss."
        )
