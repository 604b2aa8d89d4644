"""Runs training steps of the user's model, on fake or real tensors."""

import os
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

import lightning_gpuprof
from lightning_gpuprof.adapters.fake_tensors import value_errors
from lightning_gpuprof.adapters.pytree import tree_leaves, tree_map
from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.trials.live_bytes import LiveBytes
from lightning_gpuprof.trials.optimizer import host_state, make_optimizer
from lightning_gpuprof.trials.user_model import CONTRACT, Made

STEPS = 2
"""The first has no optimizer state and no gradients from before; the second is like all others."""
ON_HOST = "host"
"""The kind of memory that stays on the host on CUDA too."""
_NOT_THE_USERS = tuple(
    os.path.dirname(str(module.__file__)) for module in (torch, lightning_gpuprof)
)


def run_steps(
    made: Made, batch_size: int, *, optimizer: str, precision: str, live: LiveBytes
) -> torch.optim.Optimizer:
    """Run two CPU training steps under `live`, already entered; returns the optimizer."""
    made.model.train()
    live.mark(list(made.model.parameters()), "parameters")
    live.mark(list(made.model.buffers()), "buffers")
    used = make_optimizer(made.model, optimizer)
    for _ in range(STEPS):
        _run_step(made, batch_size, used, precision, live)
    live.phase = "end"
    return used


def _run_step(
    made: Made, batch_size: int, used: torch.optim.Optimizer, precision: str, live: LiveBytes
) -> None:
    live.phase = "forward"
    batch = in_precision(made.batch(batch_size), precision)
    live.mark(batch, "inputs")
    # Both mixed precisions halve the same tensors; CPU autocast knows bfloat16 in every version.
    mixed = precision.endswith("-mixed")
    with torch.autocast("cpu", torch.bfloat16, enabled=mixed), _reading_no_values(made.model):
        loss = loss_of(made, batch)
    live.phase = "zero_grad"
    used.zero_grad()
    live.phase = "backward"
    loss.backward()  # type: ignore[no-untyped-call]
    live.mark([parameter.grad for parameter in made.model.parameters()], "gradients")
    live.phase = "optimizer_step"
    used.step()
    live.mark(host_state(used), ON_HOST)
    live.mark([list(state.values()) for state in used.state.values()], "optimizer_state")


def loss_of(made: Made, batch: Any) -> torch.Tensor:
    """Run forward as training would, and return the loss.

    Raises:
        ConfigError: The model gives none.
    """
    model: Any = made.model
    if made.forward_only:
        return _sum_of(model(*batch) if isinstance(batch, tuple) else model(batch))
    if hasattr(model, "training_step"):
        if not getattr(model, "automatic_optimization", True):
            raise ConfigError(
                "The model optimizes by hand (automatic_optimization=False), which needs a "
                "Trainer. Let make() return a Module whose forward gives the loss."
            )
        output = model.training_step(batch, 0)
    elif isinstance(batch, dict):
        output = model(**batch)
    else:
        output = model(*batch) if isinstance(batch, list | tuple) else model(batch)
    loss = output.get("loss") if isinstance(output, dict) else output
    loss = loss if isinstance(loss, torch.Tensor) else getattr(output, "loss", None)
    if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
        is_tensor = isinstance(output, torch.Tensor)
        gave = f"a tensor of shape {tuple(output.shape)}" if is_tensor else type(output).__name__
        raise ConfigError(
            f"{type(model).__name__} gave {gave} for a step, not a loss of one "
            f"number (or a dict with 'loss'). {CONTRACT}"
        )
    return loss


def to_precision(model: torch.nn.Module, precision: str) -> None:
    """Give the model the dtype of a "-true" precision; tied parameters stay tied."""
    dtype = _dtype(precision)
    if dtype is None:
        return
    # Module.to swaps tensors, which fakes refuse.
    done: dict[int, torch.nn.Parameter] = {}
    for module in model.modules():
        for name, old in [*module.named_parameters(recurse=False, remove_duplicate=False)]:
            if old.is_floating_point():
                new = torch.nn.Parameter(old.detach().to(dtype), requires_grad=old.requires_grad)
                setattr(module, name, done.setdefault(id(old), new))
        for name, buffer in [*module.named_buffers(recurse=False, remove_duplicate=False)]:
            if buffer.is_floating_point():
                setattr(module, name, buffer.to(dtype))


def in_precision(batch: Any, precision: str, device: torch.device | None = None) -> Any:
    """Return a batch with its floats in the dtype of a "-true" precision, on a device if given."""
    dtype = _dtype(precision)

    def convert(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        return leaf.to(device, dtype if dtype and leaf.is_floating_point() else leaf.dtype)

    return tree_map(convert, batch)


def _dtype(precision: str) -> torch.dtype | None:
    return {"bf16-true": torch.bfloat16, "16-true": torch.float16}.get(precision)


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


def _sum_of(output: Any) -> torch.Tensor:
    leaves = [
        leaf
        for leaf in tree_leaves(output)
        if isinstance(leaf, torch.Tensor) and leaf.requires_grad
    ]
    if not leaves:
        raise ConfigError("forward(example_input_array) gave no tensor that requires a gradient.")
    return torch.stack([leaf.sum() for leaf in leaves]).sum()
