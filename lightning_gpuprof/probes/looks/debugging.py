"""Tells what of Python's and torch's own debugging is on, and which line of the program did it."""

import gc
import linecache
import os
import re
import sys
import tracemalloc
from collections.abc import Iterator, Mapping
from typing import Any

from lightning_gpuprof.probes.stacks.stack_lines import package_of, shown_path
from lightning_gpuprof.records.debugging import Debugging, Tool
from lightning_gpuprof.records.module_calls import CallPlace

_SWITCHES = {
    Tool.TRACEMALLOC: r"\btracemalloc\.start\(",
    Tool.TRACE: r"\b(sys|threading)\.settrace(_all_threads)?\(|\.set_trace\(|\bsys\.monitoring\b",
    Tool.PROFILE: r"\b(sys|threading)\.setprofile(_all_threads)?\(|\bProfile\(|\bprof\w*\.enable\(",
    Tool.GC: r"\bgc\.set_debug\(",
    Tool.LAUNCH_BLOCKING: r"CUDA_LAUNCH_BLOCKING|HIP_LAUNCH_BLOCKING|AMD_SERIALIZE_KERNEL",
    Tool.DISTRIBUTED: r"TORCH_DISTRIBUTED_DEBUG|set_debug_level",
}
"""What a line looks like that switches a tool on."""
_OFF = ("", "0", "default", "malloc", "pymalloc", "mimalloc")
_MONITORS = 6
"""Identifiers of tools that `sys.monitoring` has."""
_PROFILER = 2


def debugging_on(environ: Mapping[str, str] = os.environ) -> tuple[Debugging, ...]:
    """Return what is on in this thread and process right now, each with the line that did it."""
    return tuple(Debugging(tool, by, _line_of(tool)) for tool, by in _found(environ))


def _found(environ: Mapping[str, str]) -> Iterator[tuple[Tool, str]]:
    if tracemalloc.is_tracing():
        yield Tool.TRACEMALLOC, f"{tracemalloc.get_traceback_limit()}"
    trace = sys.gettrace() or _monitor(but=_PROFILER)
    if trace is not None:
        yield Tool.TRACE, _name(trace)
    profile = sys.getprofile() or _monitor(only=_PROFILER)
    if profile is not None:
        yield Tool.PROFILE, _name(profile)
    if gc.get_debug():
        yield Tool.GC, str(gc.get_debug())
    if sys.flags.dev_mode:
        yield Tool.ALLOCATOR, "PYTHONDEVMODE=1" if environ.get("PYTHONDEVMODE") else "python -X dev"
    elif environ.get("PYTHONMALLOC", "") not in _OFF:
        yield Tool.ALLOCATOR, f"PYTHONMALLOC={environ['PYTHONMALLOC']}"
    for name in ("CUDA_LAUNCH_BLOCKING", "HIP_LAUNCH_BLOCKING", "AMD_SERIALIZE_KERNEL"):
        if environ.get(name, "") not in _OFF:
            yield Tool.LAUNCH_BLOCKING, f"{name}={environ[name]}"
    if environ.get("TORCH_DISTRIBUTED_DEBUG", "").upper() == "DETAIL":
        yield Tool.DISTRIBUTED, "TORCH_DISTRIBUTED_DEBUG=DETAIL"


def _monitor(*, only: int | None = None, but: int | None = None) -> str | None:
    """Return the name of a tool that uses `sys.monitoring` (Python 3.12) and is told of events."""
    monitoring: Any = getattr(sys, "monitoring", None)
    if monitoring is None:
        return None
    for number in range(_MONITORS):
        if number == but or (only is not None and number != only):
            continue
        name = monitoring.get_tool(number)
        if name is not None and monitoring.get_events(number):
            return str(name)
    return None


def _name(tool: Any) -> str:
    """Return a name for a trace or profile function, such as `cProfile` or `pydevd`.

    >>> _name(os.path.join), _name("cProfile")
    ('posixpath.join', 'cProfile')
    """
    if isinstance(tool, str):
        return tool
    tool = getattr(tool, "__func__", tool)
    kind = tool if hasattr(tool, "__qualname__") else type(tool)
    module = getattr(kind, "__module__", None) or type(tool).__module__
    return f"{module}.{kind.__qualname__}"


def _line_of(tool: Tool) -> CallPlace | None:
    return own_line_like(_SWITCHES[tool]) if tool in _SWITCHES else None


def own_line_like(pattern: str) -> CallPlace | None:
    """Return the first line of the program's own files that looks like a pattern."""
    switch = re.compile(pattern)
    for file in _own_files():
        for number, text in enumerate(linecache.getlines(file), 1):
            source = text.strip()
            if switch.search(source) and not source.startswith("#"):
                return CallPlace(shown_path(file), number, "", source)
    return None


def _own_files() -> list[str]:
    """Return the files of the program that are loaded, the script that was started first."""
    main = sys.modules.get("__main__")
    modules = [main, *(one for name, one in list(sys.modules.items()) if name != "__main__")]
    files = (getattr(one, "__file__", None) for one in modules)
    python = (file for file in files if isinstance(file, str) and file.endswith(".py"))
    return list(dict.fromkeys(file for file in python if package_of(file) == ""))
