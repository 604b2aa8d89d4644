"""Finds the function of a library that a line calls, as functions in C have no Python frame."""

import ast
import builtins
import linecache
import sys
from functools import lru_cache
from itertools import islice
from types import CodeType, FrameType, ModuleType

from lightning_gpuprof.adapters.frames import TENSOR_PACKAGES
from lightning_gpuprof.runtime.places import is_installed

_MODULES_THAT_WAIT = frozenset(
    {"_thread", "threading", "queue", "_queue", "select", "_multiprocessing"}
)
_OPERATORS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.MatMult: "@"}
_QUICK_FUNCTIONS = frozenset(dir(builtins))
_QUICK_METHODS = frozenset(name for kind in (list, dict, set, str) for name in dir(kind))
"""Functions and methods of Python whose calls are short, unless their arguments are large."""
_STANDARD_MODULES = (
    sys.stdlib_module_names - {"builtins", "operator", "_operator"} - _MODULES_THAT_WAIT
)
"""Modules of the standard library whose functions work on Python's own values. Built-in functions
such as `sum` are left out, since they may work on tensors."""


def called_library(frame: FrameType) -> str | None:
    """Return the function of a library that a running frame calls, such as `numpy.normal`.

    None if the frame calls nothing or an operator of torch, or if the function is unknown. A
    function is known if it is reached from a global name of the frame's module; local names are not
    read. Before Python 3.11 it is never known, since an instruction does not refer to its
    expression.
    """
    code = frame.f_code
    expression = _expression(code, frame.f_lasti)
    path = _path(expression.func) if isinstance(expression, ast.Call) else None
    if path is None or path[0] not in frame.f_globals:
        return None
    if path[0] in (*code.co_varnames, *code.co_cellvars, *code.co_freevars):
        return None
    package = _package(frame.f_globals[path[0]])
    if package is None or package.startswith(TENSOR_PACKAGES):
        return None
    if package not in _STANDARD_MODULES and not is_installed(package):
        return None
    return f"{package}.{path[-1]}"


def operation_of(frame: FrameType) -> str | None:
    """Return the function or operator that a running frame computes, such as `tensor` or `/`."""
    expression = _expression(frame.f_code, frame.f_lasti)
    if isinstance(expression, ast.BinOp):
        return _OPERATORS.get(type(expression.op))
    function = expression.func if isinstance(expression, ast.Call) else None
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", None)


def is_quick(code: CodeType, offset: int) -> bool:
    """Return whether an instruction calls a built-in function or method that takes little time."""
    expression = _expression(code, offset)
    path = _path(expression.func) if isinstance(expression, ast.Call) else None
    if path is None:
        return False
    quick_names = _QUICK_METHODS if len(path) > 1 else _QUICK_FUNCTIONS
    return path[-1] in quick_names or path[0] == "math"


def _path(function: ast.expr) -> tuple[str, ...] | None:
    """Return the names by which a function is called, such as `("np", "random", "normal")`."""
    names: list[str] = []
    while isinstance(function, ast.Attribute):
        names.insert(0, function.attr)
        function = function.value
    return (function.id, *names) if isinstance(function, ast.Name) else None


@lru_cache(maxsize=4096)
def _expression(code: CodeType, offset: int) -> ast.expr | None:
    """Return the expression that an instruction belongs to, or None."""
    try:
        return ast.parse(_text_of(code, offset) or "", mode="eval").body
    except (SyntaxError, ValueError):
        return None


def _text_of(code: CodeType, offset: int) -> str | None:
    """Return the text of the expression that an instruction belongs to, or None."""
    if sys.version_info < (3, 11) or offset < 0:
        return None
    position = next(islice(code.co_positions(), offset // 2, None), None)
    if position is None:
        return None
    first_line, last_line, begin_column, end_column = position
    lines = [
        linecache.getline(code.co_filename, number).encode()
        for number in range(first_line or 1, (last_line or 0) + 1)
    ]
    if not lines or not all(lines):
        return None
    lines[-1] = lines[-1][:end_column]
    lines[0] = lines[0][begin_column:]
    return b"".join(lines).decode(errors="replace")


def _package(value: object) -> str | None:
    """Return the package that a module, function or object comes from."""
    if isinstance(value, ModuleType):
        name: object = value.__name__
    elif isinstance(value, type) or callable(value):
        name = getattr(value, "__module__", None)
    else:
        name = type(value).__module__
    return name.split(".")[0] if isinstance(name, str) else None
