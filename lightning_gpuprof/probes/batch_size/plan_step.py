"""Runs training steps of the user's model, on fake or real CPU tensors."""

import os
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.probes.batch_size.live_bytes import LiveBytes
from lightning_gpuprof.probes.batch_size.plan_model import CONTRACT, Made
from lightning_gpuprof.probes.batch_size.plan_optimizer import make_optimizer, on_host

STEPS = 2
"""The first has no optimizer state and no gradients from before; the second is like all others."""
ON_HOST = "host"
"""The kind of what stays on the host on CUDA too."""
_NOT_THE_USERS = tuple(os.path.dirname(file) for file in (torch.__file__, __file__))


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
    for _ in range(STEPS):
        _one_step(made, batch_size, used, precision, live)
    live.phase = "end"
    return used


def _one_step(
    made: Made, batch_size: int, used: torch.optim.Optimizer, precision: str, live: LiveBytes
) -> None:
    live.phase = "forward"
    batch = _in_precision(made.batch(batch_size), precision)
    live.mark(batch, "inputs")
    with _autocast(precision), _reading_no_values(made.model):
        loss = loss_of(made, batch)
    live.phase = "zero_grad"
    used.zero_grad()
    live.phase = "backward"
    loss.backward()  # type: ignore[no-untyped-call]
    live.mark([one.grad for one in made.model.parameters()], "gradients")
    live.phase = "optimizer_step"
    used.step()
    live.mark(on_host(used), ON_HOST)
    live.mark([list(state.values()) for state in used.state.values()], "optimizer_state")
    del loss, batch


def loss_of(made: Made, batch: Any) -> torch.Tensor:
    """Run forward as training would, and return the loss.

    Raises:
        ConfigError: The model gives none.
    """
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
            f"{type(model).__name__} gave {_told(output)} for a step, not a loss of one "
            f"number (or a dict with 'loss'). {CONTRACT}"
        )
    return loss


@contextmanager
def _reading_no_values(model: torch.nn.Module) -> Iterator[None]:
    """Say where a model reads a tensor's value, which fake tensors do not have."""
    from torch._subclasses import fake_tensor as fakes

    try:
        yield
    except (fakes.DataDependentOutputException, fakes.DynamicOutputShapeException) as error:
        frames = traceback.extract_tb(error.__traceback__)
        own = [one for one in frames if not one.filename.startswith(_NOT_THE_USERS)]
        place = f"{own[-1].filename}:{own[-1].lineno}: {own[-1].line}" if own else str(error)
        raise ConfigError(
            f"{type(model).__name__} reads values of its tensors ({place}); a plan runs on "
            "tensors without values. Leave that out in the model that make() returns (a metric, "
            "an .item(), a mask by value)."
        ) from error


def _total(output: Any) -> torch.Tensor:
    leaves = [leaf for leaf in tree_leaves(output) if _trains(leaf)]
    if not leaves:
        raise ConfigError("forward(example_input_array) gave no tensor that requires a gradient.")
    return torch.stack([leaf.sum() for leaf in leaves]).sum()


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


def _told(output: object) -> str:
    """Say what a step gave: the kind of tensor is ours, its shape is the user's."""
    if isinstance(output, torch.Tensor):
        return f"a tensor of shape {tuple(output.shape)}"
    return type(output).__name__
