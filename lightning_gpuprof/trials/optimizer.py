"""The optimizer of a trial: the model's own, or one by name."""

from typing import Any

import torch

from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.trials.messages import OPTIMIZERS


def make_optimizer(
    model: torch.nn.Module, name: str, *, as_on_cuda: bool = True
) -> torch.optim.Optimizer:
    """Return the optimizer to train with.

    Args:
        model: With its parameters in place.
        name: One of `OPTIMIZERS`; "model" asks `configure_optimizers`.
        as_on_cuda: Take the multi-tensor path, torch's choice for parameters on CUDA.

    Raises:
        ConfigError: The name is unknown, or the model's own cannot be made without a Trainer.
    """
    if name not in OPTIMIZERS:
        raise ConfigError(f"optimizer={name!r} is not known. Pass one of {', '.join(OPTIMIZERS)}.")
    optimizer = _configured(model) if name == "model" else _named(model, name)
    for group in optimizer.param_groups:
        if as_on_cuda and group.get("foreach", False) is None and not group.get("fused"):
            group["foreach"] = True
    return optimizer


def host_state(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    """Return the step counters that stay on the host on CUDA too, as they do unless fused."""
    counters = []
    for group in optimizer.param_groups:
        if not (group.get("fused") or group.get("capturable")):
            steps = [optimizer.state.get(one, {}).get("step") for one in group["params"]]
            counters += [step for step in steps if isinstance(step, torch.Tensor)]
    return counters


def _named(model: torch.nn.Module, name: str) -> torch.optim.Optimizer:
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if not parameters:
        raise ConfigError("The model has no parameter that requires a gradient: nothing to train.")
    if name == "adam":
        return torch.optim.Adam(parameters)
    if name == "adamw":
        return torch.optim.AdamW(parameters)
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9 if name == "momentum" else 0.0)


def _configured(model: torch.nn.Module) -> torch.optim.Optimizer:
    configure = getattr(model, "configure_optimizers", None)
    if configure is None:
        return _named(model, "adamw")
    try:
        configured: Any = configure()
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
