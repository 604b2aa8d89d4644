"""Finds the line of a module's own `optimizer_step` that calls the closure."""

import ast
import inspect
from typing import Any

from lightning_gpuprof.probes.looks.call_places import shown
from lightning_gpuprof.probes.stacks.program_text import tree_of
from lightning_gpuprof.records.module_calls import CallPlace

_HOOK = "optimizer_step"


def closure_call(model: Any) -> CallPlace | None:
    """Return it; None where the class has no such method of its own, or does not call it there."""
    own = inspect.unwrap(getattr(type(model), _HOOK, None) or closure_call)
    code = getattr(own, "__code__", None)
    if code is None or own.__module__.partition(".")[0] in ("lightning", "pytorch_lightning"):
        return None
    for function in ast.walk(tree_of(code.co_filename) or ast.Module([], [])):
        if isinstance(function, ast.FunctionDef) and function.name == _HOOK:
            given = {one.arg for one in function.args.args[1:]}
            called = (one for one in ast.walk(function) if isinstance(one, ast.Call))
            lines = [
                one.lineno
                for one in called
                if isinstance(one.func, ast.Name) and one.func.id in given
            ]
            if lines and function.lineno >= code.co_firstlineno:
                return shown((code.co_filename, min(lines), _HOOK))
    return None
