"""Notices torch.compile at work, and what it says of it, from the counters of `torch._dynamo`.

Nothing here imports dynamo, which takes a second: a program that compiles has done so.

Private names, seen in torch 2.2 to 2.13. Without them no compilation is noticed:
    torch._dynamo.utils.counters, .cumulative_time_spent_ns (torch 2.7)
    torch._dynamo.utils.graph_break_reasons (reason, user_stack), .guard_failures (by code object)
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

is_compiling: Callable[[], bool] = getattr(torch.compiler, "is_compiling", lambda: False)
"""Whether torch.compile traces the code that asks. torch has it from 2.3 on, and traces it as a
constant; before, a program's regions are traced as any other code."""

_COMPILATIONS = ("entire_frame_compile", "entire_backward_compile")
"""The timed events that no other encloses."""
_MODULES = sys.modules


def counters() -> Mapping[str, Any] | None:
    """Return dynamo's counters; None while nothing has imported it."""
    return getattr(_MODULES.get("torch._dynamo.utils"), "counters", None)


def _compiled() -> int:
    # `.get`: these are defaultdicts, and reading must not add keys.
    frames = (counters() or {}).get("frames")
    return int(frames.get("total", 0)) if frames else 0


Told = tuple[str, str, list[tuple[str, int, str]]]
"""GRAPH_BREAK or RECOMPILATION, dynamo's words, and the stack's files, lines and functions."""
GRAPH_BREAK, RECOMPILATION = "graph break", "recompilation"


def told() -> Iterator[Told]:
    """Yield what dynamo says of all compilations so far; it says some things twice."""
    utils = _MODULES.get("torch._dynamo.utils")
    for one in list(getattr(utils, "graph_break_reasons", ())):
        stack = [(frame.filename, frame.lineno or 0, frame.name) for frame in one.user_stack]
        yield GRAPH_BREAK, str(one.reason), stack
    for code, reasons in list(getattr(utils, "guard_failures", {}).items()):
        place = code.co_filename, code.co_firstlineno, code.co_name
        for reason in reasons:
            yield RECOMPILATION, str(reason), [place]


class Compilations:
    """Tells what was compiled since the last call."""

    def __init__(self) -> None:
        self._count = _compiled()
        self._spent_ns = 0
        self.took_ns()

    def compiled_since(self) -> bool:
        """Tell whether anything was compiled since the last call."""
        before, self._count = self._count, _compiled()
        return self._count > before

    def took_ns(self) -> int | None:
        """Return what compiling took since the last call; None where dynamo does not say."""
        utils = _MODULES.get("torch._dynamo.utils")
        times = getattr(utils, "cumulative_time_spent_ns", None)
        if times is None:
            return None
        before, self._spent_ns = self._spent_ns, sum(int(times.get(e, 0)) for e in _COMPILATIONS)
        # A reset of dynamo begins anew.
        return self._spent_ns - before if self._spent_ns >= before else self._spent_ns
