"""Which library a line is in that calls code written in C: such a call has no frame of its own."""

import ast
import builtins
import linecache
import sys
from functools import lru_cache
from itertools import islice
from types import CodeType, FrameType, ModuleType

from lightning_gpuprof.adapters.frames import TENSOR_PACKAGES
from lightning_gpuprof.runtime.places import is_installed

_WAITS = frozenset({"_thread", "threading", "queue", "_queue", "select", "_multiprocessing"})
_SIGNS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.MatMult: "@"}
_QUICK = (
    frozenset(dir(builtins)),
    frozenset(name for one in (list, dict, set, str) for name in dir(one)),
)
"""Python's functions and methods: short calls, unless they are given much."""
_PYTHONS = sys.stdlib_module_names - {"builtins", "operator", "_operator"} - _WAITS
"""Python's own modules whose calls work on Python's own values. Built-in functions, such as `sum`,
may go through tensors, and are not named."""


def called_library(frame: FrameType) -> str | None:
    """Return the function of a library that a running frame calls, such as `numpy.normal`.

    None where it calls nothing, calls an operator of torch's, or does not say: the function must
    be reached from a name of the frame's module, and local names are left alone. Before Python 3.11
    an instruction does not say to which expression it belongs: None then.
    """
    code = frame.f_code
    called = _expression(code, frame.f_lasti)
    path = _path(called.func) if isinstance(called, ast.Call) else None
    if path is None or path[0] not in frame.f_globals:
        return None
    if path[0] in (*code.co_varnames, *code.co_cellvars, *code.co_freevars):
        return None
    package = _package(frame.f_globals[path[0]])
    if package is None or package.startswith(TENSOR_PACKAGES):
        return None
    if package not in _PYTHONS and not is_installed(package):
        return None
    return f"{package}.{path[-1]}"


def operation_of(frame: FrameType) -> str | None:
    """Return what a running frame computes, such as `tensor` in a call of it, or `/`."""
    found = _expression(frame.f_code, frame.f_lasti)
    if isinstance(found, ast.BinOp):
        return _SIGNS.get(type(found.op))
    called = found.func if isinstance(found, ast.Call) else None
    return called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", None)


def is_quick(code: CodeType, instruction: int) -> bool:
    """Tell whether an instruction calls a built-in function or method, which hardly takes time."""
    called = _expression(code, instruction)
    path = _path(called.func) if isinstance(called, ast.Call) else None
    return path is not None and (path[-1] in _QUICK[len(path) > 1] or path[0] == "math")


def _path(called: ast.expr) -> tuple[str, ...] | None:
    """Return the names of a function that is called: `("np", "random", "normal")`."""
    names: list[str] = []
    while isinstance(called, ast.Attribute):
        names.insert(0, called.attr)
        called = called.value
    return (called.id, *names) if isinstance(called, ast.Name) else None


@lru_cache(maxsize=4096)
def _expression(code: CodeType, instruction: int) -> ast.expr | None:
    """Return the expression that an instruction belongs to."""
    try:
        return ast.parse(_text_of(code, instruction) or "", mode="eval").body
    except (SyntaxError, ValueError):
        return None


def _text_of(code: CodeType, instruction: int) -> str | None:
    """Return the text of the expression that an instruction belongs to."""
    if sys.version_info < (3, 11) or instruction < 0:
        return None
    at = next(islice(code.co_positions(), instruction // 2, None), None)
    if at is None:
        return None
    first, last, begin, end = at
    lines = [
        linecache.getline(code.co_filename, number).encode()
        for number in range(first or 1, (last or 0) + 1)
    ]
    if not lines or not all(lines):
        return None
    lines[-1] = lines[-1][:end]
    lines[0] = lines[0][begin:]
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
