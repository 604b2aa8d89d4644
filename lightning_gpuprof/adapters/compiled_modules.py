"""Recognizes modules that torch.compile has compiled, and names modules without its wrappers.

Private names in torch 2.2 to 2.13 and Lightning 2.4 to 2.6. Without them a compiled module counts
as not compiled:
    torch._dynamo.OptimizedModule, by the name of the class, and its _orig_mod
    torch.nn.Module._compiled_call_impl: set by `module.compile()`
    LightningModule._compiler_ctx: set if a whole LightningModule is compiled
"""

from typing import Any

from torch.nn import Module

from lightning_gpuprof.adapters.lightning import is_kind

_WRAPPED = "_orig_mod"


def is_compiled(module: Any) -> bool:
    """Return whether a module itself is compiled, in any way."""
    return (
        is_kind(module, "OptimizedModule")
        or is_compiled_whole(module)
        or getattr(module, "_compiled_call_impl", None) is not None
    )


def is_compiled_whole(module: Any) -> bool:
    """Return whether a LightningModule is compiled as a whole."""
    return getattr(module, "_compiler_ctx", None) is not None


def modules_by_name(model: Module) -> dict[str, Module]:
    """Return the modules of a model by name. A compiled wrapper stands for the module in it."""
    named = model.named_modules(remove_duplicate=False)
    return {
        name.replace(f"{_WRAPPED}.", ""): module
        for name, module in named
        if name and not name.endswith(_WRAPPED)
    }


def is_inside_compiled(model: Module, name: str) -> bool:
    """Return whether hooks on a module would be compiled into a graph, or break it."""
    if is_compiled_whole(model):
        return True
    module: Any = model
    for part in name.split("."):
        if is_compiled(module):
            return True
        module = getattr(module, part)
    return is_compiled(module) and not is_kind(module, "OptimizedModule")
