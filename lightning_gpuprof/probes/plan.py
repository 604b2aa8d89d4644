"""Predicts a training step's memory by running it on tensors that have shapes and no data.

No GPU is used and nothing large is allocated. Two steps run, since the first has no optimizer
state and no gradients from before, in Lightning's order: `training_step`, then `zero_grad`, then
backward, then the optimizer's step. So the gradients of one step are still there in the next
one's forward.
"""

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.probes.caching_allocator import block_bytes, replay
from lightning_gpuprof.probes.cuda_rules import cuda_rules
from lightning_gpuprof.probes.live_bytes import Block, LiveBytes, fake_tensors
from lightning_gpuprof.probes.plan_model import CONTRACT, Made, call
from lightning_gpuprof.probes.plan_optimizer import make_optimizer, on_host
from lightning_gpuprof.probes.plan_types import KINDS, PRECISIONS, PlanPoint

CUBLAS_WORKSPACE_BYTES = (2 * 4096 + 8 * 16) * 1024
"""torch's default `CUBLAS_WORKSPACE_CONFIG=:4096:2:16:8` (notes/cuda.html, cuBLAS workspaces)."""
_HANDLES = 2
"""One for the thread that runs forward, one for autograd's."""
_SKIPPED = "host"
_STEPS = 2

_ASSUMED = (
    "Two cuBLAS workspaces of 8.1 MiB are counted (CUBLAS_WORKSPACE_CONFIG=:4096:2:16:8, torch's "
    "default; on Hopper it is larger).",
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
) -> list[PlanPoint]:
    """Predict the memory of a training step at each batch size.

    Args:
        make: See `plan_model.CONTRACT`; called once for each size, under fake tensors.
        batch_sizes: Samples per step and device.
        optimizer: One of `OPTIMIZERS`; "model" asks `configure_optimizers`.
        precision: As Lightning's Trainer names it; one of `PRECISIONS`.

    Raises:
        ConfigError: An argument or the model cannot be planned with.
    """
    if precision not in PRECISIONS:
        raise ConfigError(f"precision={precision!r} is not known. Pass one of {PRECISIONS}.")
    bad = [size for size in batch_sizes if size < 1]
    if bad or not batch_sizes:
        raise ConfigError(f"batch_sizes={list(batch_sizes)}: give sizes of 1 or more.")
    return [_point(make, size, optimizer, precision) for size in batch_sizes]


def run_step(
    made: Made, batch_size: int, *, optimizer: str, precision: str, live: LiveBytes
) -> torch.optim.Optimizer:
    """Run two training steps under `live`, which must have been entered; returns the optimizer.

    The tensors may be fake or real ones on the CPU.
    """
    made.model.train()
    live.mark(_distinct(made.model.parameters()), "parameters")
    live.mark(_distinct(made.model.buffers()), "buffers")
    used = make_optimizer(made.model, optimizer)
    for _ in range(_STEPS):
        _one_step(made, batch_size, used, precision, live)
    live.phase = "end"
    return used


def _one_step(
    made: Made, batch_size: int, used: torch.optim.Optimizer, precision: str, live: LiveBytes
) -> None:
    live.phase = "forward"
    batch = _in_precision(made.batch(batch_size), precision)
    live.mark(batch, "inputs")
    with _autocast(precision):
        loss = _loss(made, batch)
    live.phase = "zero_grad"
    used.zero_grad()
    live.phase = "backward"
    loss.backward()
    live.mark([one.grad for one in made.model.parameters()], "gradients")
    live.phase = "optimizer_step"
    used.step()
    live.mark(on_host(used), _SKIPPED)
    live.mark([list(state.values()) for state in used.state.values()], "optimizer_state")
    del loss, batch


def _point(make: Callable[[], Any], size: int, optimizer: str, precision: str) -> PlanPoint:
    with fake_tensors(), cuda_rules(), warnings.catch_warnings():
        # Copying a module asks each tensor for its address; a fake one has none.
        warnings.filterwarnings("ignore", "Accessing the data pointer of FakeTensor")
        made = call(make)
        to_precision(made.model, precision)
        with LiveBytes() as live:
            used = run_step(made, size, optimizer=optimizer, precision=precision, live=live)
            notes = (*_ASSUMED, *_notes(made))
            # Read while model and optimizer live; their end is no part of the step.
            events, blocks = list(live.events), list(live.blocks)
    name = type(used).__name__
    return summarize(size, blocks, events, optimizer=name, assumptions=notes)


def summarize(
    batch_size: int,
    blocks: Sequence[Block],
    events: Iterable[tuple[int, int]],
    *,
    optimizer: str,
    assumptions: tuple[str, ...] = (),
) -> PlanPoint:
    """Replay the events of a step through the caching allocator, and split its peak by kind."""
    spaces = range(len(blocks), len(blocks) + _HANDLES)
    kept = [
        *((index, CUBLAS_WORKSPACE_BYTES) for index in spaces),
        *(event for event in events if blocks[event[0]].kind != _SKIPPED),
    ]
    kept = [event for event in kept if event[0] >= len(blocks) or blocks[event[0]].size]
    footprint = replay(kept)
    kinds, phase = _at_peak(blocks, kept[: footprint.peak_index + 1])
    return PlanPoint(
        batch_size=batch_size,
        peak_allocated_bytes=footprint.peak_allocated_bytes,
        peak_reserved_bytes=footprint.peak_reserved_bytes,
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
    sums["activations"] //= _STEPS
    return sums


def _loss(made: Made, batch: Any) -> torch.Tensor:
    model: Any = made.model
    if made.forward_only:
        return _total(model(*batch) if isinstance(batch, tuple) else model(batch))
    if hasattr(model, "training_step"):
        if not getattr(model, "automatic_optimization", True):
            raise ConfigError(
                "The model optimizes by hand (automatic_optimization=False), which needs a "
                "Trainer. Plan with make() returning a Module whose forward gives the loss."
            )
        output = model.training_step(batch, 0)
    elif isinstance(batch, dict):
        output = model(**batch)
    else:
        output = model(*batch) if isinstance(batch, list | tuple) else model(batch)
    loss = output.get("loss") if isinstance(output, dict) else output
    loss = loss if isinstance(loss, torch.Tensor) else getattr(output, "loss", None)
    if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
        raise ConfigError(
            f"{type(model).__name__} gave {type(output).__name__} for a step, not a loss of one "
            f"number (or a dict with 'loss'). {CONTRACT}"
        )
    return loss


def _total(output: Any) -> torch.Tensor:
    leaves = [leaf for leaf in tree_leaves(output) if _trains(leaf)]
    if not leaves:
        raise ConfigError("forward(example_input_array) gave no tensor that requires a gradient.")
    total: torch.Tensor = sum(leaf.sum() for leaf in leaves)  # type: ignore[assignment]
    return total


def _trains(leaf: object) -> bool:
    return isinstance(leaf, torch.Tensor) and leaf.requires_grad


def _dtype(precision: str) -> torch.dtype | None:
    if not precision.endswith("-true") or precision.startswith("32"):
        return None
    return torch.bfloat16 if precision.startswith("bf16") else torch.float16


def to_precision(model: torch.nn.Module, precision: str) -> None:
    """Give the model the dtype of a "-true" precision; tied parameters stay tied."""
    dtype = _dtype(precision)
    if dtype is None:
        return
    # Module.to swaps tensors, which fakes refuse.
    done: dict[int, torch.nn.Parameter] = {}
    for module in model.modules():
        for name, old in module._parameters.items():
            if old is not None and old.is_floating_point():
                new = torch.nn.Parameter(old.detach().to(dtype), requires_grad=old.requires_grad)
                module._parameters[name] = done.setdefault(id(old), new)
        for name, buffer in module._buffers.items():
            if buffer is not None and buffer.is_floating_point():
                module._buffers[name] = buffer.to(dtype)


def _in_precision(batch: Any, precision: str) -> Any:
    dtype = _dtype(precision)

    def one(leaf: Any) -> Any:
        floats = dtype and isinstance(leaf, torch.Tensor) and leaf.is_floating_point()
        return leaf.to(dtype) if floats else leaf

    return tree_map(one, batch)


@contextmanager
def _autocast(precision: str) -> Iterator[None]:
    # Both mixed precisions halve the same tensors; CPU autocast knows bfloat16 in every version.
    with torch.autocast("cpu", torch.bfloat16, enabled=precision.endswith("-mixed")):
        yield


def _distinct(tensors: Iterable[torch.Tensor]) -> list[torch.Tensor]:
    return list(dict.fromkeys(tensors))


def _notes(made: Made) -> Iterator[str]:
    recurrent = {type(one).__name__ for one in made.model.modules()} & {"LSTM", "GRU", "RNN"}
    if recurrent:
        yield f"cuDNN's reserve space is not known: {', '.join(sorted(recurrent))} is only a guess."
    if made.forward_only:
        yield (
            "There was no batch for training_step: forward(example_input_array) was run, with the "
            "sum of its output as the loss."
        )
