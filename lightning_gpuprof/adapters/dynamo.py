"""Reads from `torch._dynamo` what torch.compile has compiled, and its reasons.

Nothing here imports dynamo, since that takes a second. A program that compiles has imported it.

Private names in torch 2.2 to 2.13. Without them no compilation is noticed:
    torch._dynamo.utils.counters, .cumulative_time_spent_ns (torch 2.7)
    torch._dynamo.utils.graph_break_reasons (reason, user_stack), .guard_failures (by code object)
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

is_compiling: Callable[[], bool] = getattr(torch.compiler, "is_compiling", lambda: False)
"""Returns whether torch.compile is tracing the calling code. It exists from torch 2.3 on, which
traces it as a constant. Before, the regions of a program are traced like any other code."""

_COMPILATIONS = ("entire_frame_compile", "entire_backward_compile")
"""The timed events of dynamo that are not inside another event."""
_MODULES = sys.modules


def counters() -> Mapping[str, Any] | None:
    """Return dynamo's counters; None while nothing has imported it."""
    return getattr(_MODULES.get("torch._dynamo.utils"), "counters", None)


def compiled() -> int:
    """Return how many functions were compiled so far."""
    # `.get`: these are defaultdicts, and reading must not add keys.
    frames = (counters() or {}).get("frames")
    return int(frames.get("total", 0)) if frames else 0


Event = tuple[str, str, list[tuple[str, int, str]]]
"""`GRAPH_BREAK` or `RECOMPILATION`, dynamo's text, and the files, lines and functions of the
stack."""
GRAPH_BREAK, RECOMPILATION = "graph break", "recompilation"


def events() -> Iterator[Event]:
    """Yield all graph breaks and recompilations so far. Dynamo lists some of them twice."""
    utils = _MODULES.get("torch._dynamo.utils")
    for graph_break in list(getattr(utils, "graph_break_reasons", ())):
        frames = graph_break.user_stack
        stack = [(frame.filename, frame.lineno or 0, frame.name) for frame in frames]
        yield GRAPH_BREAK, str(graph_break.reason), stack
    for code, reasons in list(getattr(utils, "guard_failures", {}).items()):
        place = code.co_filename, code.co_firstlineno, code.co_name
        for reason in reasons:
            yield RECOMPILATION, str(reason), [place]


def spent_ns() -> int:
    """Return the time spent compiling since dynamo's last reset; 0 before torch 2.7."""
    times = getattr(_MODULES.get("torch._dynamo.utils"), "cumulative_time_spent_ns", {})
    return sum(int(times.get(event, 0)) for event in _COMPILATIONS)
