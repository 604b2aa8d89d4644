"""A training step of the user's model, on fake or real tensors."""

from collections.abc import Callable
from typing import Any

import torch

from lightning_gpuprof.adapters.pytree import tree_map
from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.trials.messages import OPTIMIZERS, PRECISIONS
from lightning_gpuprof.trials.user_model import CONTRACT, Made

CPU = torch.device("cpu")
_TRUE_DTYPES = {"bf16-true": torch.bfloat16, "16-true": torch.float16}


def check_precision(precision: str) -> None:
    """Refuse a precision that Lightning's Trainer does not know by that name.

    Raises:
        ConfigError: Names those that are known.
    """
    if precision not in PRECISIONS:
        raise ConfigError(f"precision={precision!r} is not known. Pass one of {PRECISIONS}.")


def train_step(
    made: Made,
    batch: Any,
    optimizer: torch.optim.Optimizer,
    precision: str,
    *,
    device: torch.device = CPU,
    begin: Callable[[str], None] = lambda phase: None,
) -> None:
    """Train one step in Lightning's order; `begin` is told each phase after forward.

    `zero_grad` comes between forward and backward, so the gradients of one step are still there in
    the next one's forward.
    """
    # On a CPU both mixed precisions halve the same tensors, and every version knows bfloat16.
    half = torch.float16 if precision == "16-mixed" and device.type == "cuda" else torch.bfloat16
    with torch.autocast(device.type, half, enabled=precision.endswith("-mixed")):
        loss = _loss(made, batch)
    begin("zero_grad")
    optimizer.zero_grad()
    begin("backward")
    loss.backward()  # type: ignore[no-untyped-call]
    begin("optimizer_step")
    optimizer.step()


def make_optimizer(
    model: torch.nn.Module, name: str, *, as_on_cuda: bool = True
) -> torch.optim.Optimizer:
    """Return the optimizer to train with: the model's own, or one by name.

    Args:
        model: With its parameters in place.
        name: One of `OPTIMIZERS`; "model" asks `configure_optimizers`.
        as_on_cuda: Take the multi-tensor path, torch's choice for parameters on CUDA.

    Raises:
        ConfigError: The name is unknown, or the model's own cannot be made without a Trainer.
    """
    if name not in OPTIMIZERS:
        raise ConfigError(f"optimizer={name!r} is not known. Pass one of {', '.join(OPTIMIZERS)}.")
    own = name == "model" and hasattr(model, "configure_optimizers")
    optimizer = _configured(model) if own else _named(model, name)
    for group in optimizer.param_groups:
        if as_on_cuda and group.get("foreach", False) is None and not group.get("fused"):
            group["foreach"] = True
    return optimizer


def to_precision(model: torch.nn.Module, precision: str) -> None:
    """Give the model the dtype of a "-true" precision; tied parameters stay tied."""
    dtype = _TRUE_DTYPES.get(precision)
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


def in_precision(batch: Any, precision: str, device: torch.device = CPU) -> Any:
    """Return a batch on a device, with its floats in the dtype of a "-true" precision."""
    dtype = _TRUE_DTYPES.get(precision)

    def convert(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        return leaf.to(device, dtype if dtype and leaf.is_floating_point() else leaf.dtype)

    return tree_map(convert, batch)


def _loss(made: Made, batch: Any) -> torch.Tensor:
    model: Any = made.model
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


def _named(model: torch.nn.Module, name: str) -> torch.optim.Optimizer:
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if not parameters:
        raise ConfigError("The model has no parameter that requires a gradient: nothing to train.")
    if name in ("sgd", "momentum"):
        return torch.optim.SGD(parameters, lr=0.1, momentum=0.9 if name == "momentum" else 0.0)
    return torch.optim.Adam(parameters) if name == "adam" else torch.optim.AdamW(parameters)


def _configured(model: Any) -> torch.optim.Optimizer:
    try:
        configured = model.configure_optimizers()
    except RuntimeError as error:
        raise ConfigError(
            f"configure_optimizers() failed without a Trainer ({error}). Pass the optimizer by "
            "name: --optimizer adamw."
        ) from error
    found = _optimizers(configured)
    if len(found) != 1:
        raise ConfigError(
            f"configure_optimizers() returned {len(found)} optimizers; a trial takes one. Pass it "
            "by name: --optimizer adamw."
        )
    return found[0]


def _optimizers(configured: Any) -> list[torch.optim.Optimizer]:
    """Return the optimizers in any of the forms that Lightning takes."""
    if isinstance(configured, torch.optim.Optimizer):
        return [configured]
    if isinstance(configured, dict):
        return _optimizers(configured.get("optimizer"))
    if isinstance(configured, list | tuple):
        if len(configured) == 2 and all(isinstance(part, list | tuple) for part in configured):
            configured = configured[0]
        return [optimizer for part in configured for optimizer in _optimizers(part)]
    return []
