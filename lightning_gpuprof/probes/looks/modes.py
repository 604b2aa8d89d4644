"""Tells which modes are on torch's stacks: each is told of every operator, in Python."""

import re
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch.overrides
import torch.utils._python_dispatch

from lightning_gpuprof.probes.looks.debugging import own_line_like
from lightning_gpuprof.probes.stacks.stack_lines import package_of
from lightning_gpuprof.records.module_calls import CallPlace

_WATCH = (
    "torch.utils.flop_counter",
    "torch.utils._debug_mode",
    "torch.utils._cuda_debug",
    "torch.testing.",
    "torch.distributed._tools.",
    "torch.distributed.tensor.debug.",
    "torch.distributed._tensor.debug.",
    "torch._subclasses.schema_check_mode",
    "torch.cuda._sanitizer",
)
"""Modules of torch whose modes only look on. Its others (a default device, checkpointing that keeps
some results, compiling) are there for what they do."""
_OF_OTHERS = ("torch", "lightning", "pytorch_lightning", "lightning_fabric", "lightning_gpuprof")


class OpenMode(NamedTuple):
    """A mode's class by its name, what it is told of (operators or functions), and whose it is."""

    name: str
    dispatch: bool
    package: str


def open_modes() -> frozenset[OpenMode]:
    """Return what is open in this thread now, without what torch or Lightning need themselves."""
    return frozenset(_found())


def _found() -> Iterator[OpenMode]:
    for dispatch, stack in ((True, _dispatch_stack()), (False, _function_stack())):
        for mode in stack:
            kind = type(mode)
            module = kind.__module__ or ""
            if module.split(".")[0] not in _OF_OTHERS or module.startswith(_WATCH):
                yield OpenMode(_public_name(kind), dispatch, _package(module))


def _dispatch_stack() -> list[Any]:
    read = getattr(torch.utils._python_dispatch, "_get_current_dispatch_mode_stack", None)
    return [] if read is None else list(read())


def _function_stack() -> list[Any]:
    read = getattr(torch.overrides, "_get_current_function_mode_stack", None)
    return [] if read is None else list(read())


def _public_name(kind: type) -> str:
    """Return the name that a program knows: torch's counter opens one of a class of its own."""
    name, public = kind.__name__, kind.__name__.lstrip("_")
    return public if hasattr(sys.modules.get(kind.__module__), public) else name


def _package(module: str) -> str:
    file = getattr(sys.modules.get(module), "__file__", None)
    return package_of(file) if isinstance(file, str) else ""


def made_at(name: str) -> CallPlace | None:
    """Return the line of the program that makes a mode of this class, where one looks like it."""
    # As a call, or handed on to be called; not the class itself, nor its import.
    call = rf"(?<!class )(?<![\w\"'])(?:\w+\.)*{re.escape(name)}\("
    return own_line_like(call) or own_line_like(
        rf"^(?!class |from |import ).*\b{re.escape(name)}\b"
    )
