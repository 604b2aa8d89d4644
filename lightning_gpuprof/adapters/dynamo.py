"""Reads from `torch._dynamo` what torch.compile has compiled, and its reasons.

Nothing here imports dynamo, since that takes a second. A program that compiles has imported it.

Private names in torch 2.2 to 2.13. Without them no compilation is noticed:
    torch._dynamo.utils.counters, .cumulative_time_spent_ns (torch 2.7)
    torch._dynamo.utils.graph_break_reasons (reason, user_stack), .guard_failures (by code object)
    torch._dynamo.utils._compilation_metrics, a deque of the last 64 compilations, whose
        recompile_reason and times in whole microseconds torch has from 2.6 on. Where a recompile
        limit was reached, fail_reason says so, and the function is not named: compile_id is then
        `<function>/<compilation>`, and earlier compilations of the same function have its name.
"""

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from types import CodeType
from typing import Any, NamedTuple

import torch

is_compiling: Callable[[], bool] = getattr(torch.compiler, "is_compiling", lambda: False)
"""Returns whether torch.compile is tracing the calling code. It exists from torch 2.3 on, which
traces it as a constant. Before, the regions of a program are traced like any other code."""

_COMPILATIONS = ("entire_frame_compile", "entire_backward_compile")
"""The timed events of dynamo that are not inside another event."""
_LIMIT = re.compile(r"Limit type: (\w+)|(\w*_limit) reached")
_MODULES = sys.modules

Place = tuple[str, int, str]
"""File, line and function."""


class GraphBreak(NamedTuple):
    """Dynamo's text on why it broke a graph, and the stack at that line."""

    text: str
    stack: list[Place]


class CompiledAgain(NamedTuple):
    """A function that was compiled again, or that dynamo gave up on.

    `limit` is the setting whose limit was reached; else empty. `took_ns`, which includes the
    backward pass, is None where torch does not record it.
    """

    function: Place
    reason: str
    limit: str = ""
    took_ns: int | None = None


class Graphs(NamedTuple):
    """How many graphs inductor compiled, and how many it loaded from its cache on disk."""

    built: int
    loaded: int


def counters() -> Mapping[str, Any] | None:
    """Return dynamo's counters; None while nothing has imported it."""
    return getattr(_utils(), "counters", None)


def compiled() -> int:
    """Return how many functions were compiled so far."""
    # `.get`: these are defaultdicts, and reading must not add keys.
    frames = (counters() or {}).get("frames")
    return int(frames.get("total", 0)) if frames else 0


def spent_ns() -> int:
    """Return the time spent compiling since dynamo's last reset; 0 before torch 2.7."""
    times = getattr(_utils(), "cumulative_time_spent_ns", {})
    return sum(int(times.get(event, 0)) for event in _COMPILATIONS)


class CompileLog:
    """Reads what dynamo has logged since the last reading, or since this log was made.

    A reading takes time for what is new alone. For every compilation, dynamo lists a reason for
    each version that the function already has, so that these lists grow with the square of the
    number of compilations. As dynamo itself does, this log reads the first of these reasons, which
    is about the version that was used last.
    """

    def __init__(self, *, from_start: bool = False) -> None:
        self._breaks = 0
        self._last_metrics: Any = None
        self._functions: dict[str, Place] = {}
        self._reasons: dict[CodeType, int] = {}
        self.graphs = Graphs(0, 0)
        """What the last call of `compiled_again` has read."""
        if not from_start:
            self.graph_breaks()
            self.compiled_again()

    def graph_breaks(self) -> list[GraphBreak]:
        """Return the new graph breaks. Dynamo lists some of them twice."""
        listed = getattr(_utils(), "graph_break_reasons", ())
        first = self._breaks if self._breaks <= len(listed) else 0  # `reset()` empties the list
        self._breaks = len(listed)
        return [
            GraphBreak(
                str(listed[at].reason),
                [
                    (frame.filename, frame.lineno or 0, frame.name)
                    for frame in listed[at].user_stack
                ],
            )
            for at in range(first, self._breaks)
        ]

    def compiled_again(self) -> list[CompiledAgain]:
        """Return the new compilations of functions that had been compiled before."""
        utils = _utils()
        names = getattr(getattr(utils, "CompilationMetrics", None), "__dataclass_fields__", ())
        if "recompile_reason" in names:
            return list(self._from_metrics(getattr(utils, "_compilation_metrics", ())))
        return list(self._from_reasons(getattr(utils, "guard_failures", {})))

    def _from_metrics(self, listed: Any) -> Iterator[CompiledAgain]:
        new = self._new_metrics(listed)
        self.graphs = Graphs(
            sum(entry.inductor_fx_local_cache_miss_count or 0 for entry in new),
            sum(entry.inductor_fx_local_cache_hit_count or 0 for entry in new),
        )
        backward_ns = {
            entry.compile_id: _ns(entry.backward_cumulative_compile_time_us)
            for entry in new
            if entry.is_forward is False
        }
        for entry in new:
            id = str(entry.compile_id).rpartition("/")[0]
            if entry.co_name is not None:
                self._functions[id] = entry.co_filename, entry.co_firstlineno or 0, entry.co_name
            if not entry.recompile_reason or id not in self._functions:
                continue
            limit = _LIMIT.search(entry.fail_reason or "")
            yield CompiledAgain(
                self._functions[id],
                str(entry.recompile_reason),
                "" if limit is None else limit[1] or limit[2],
                _ns(entry.dynamo_cumulative_compile_time_us) + backward_ns.get(entry.compile_id, 0),
            )

    def _new_metrics(self, listed: Any) -> list[Any]:
        new: list[Any] = []
        for entry in reversed(list(listed)):
            if entry is self._last_metrics:
                break
            new.insert(0, entry)
        self._last_metrics = new[-1] if new else self._last_metrics
        return new

    def _from_reasons(self, failures: Mapping[CodeType, list[str]]) -> Iterator[CompiledAgain]:
        for code, reasons in list(failures.items()):
            first, count = self._reasons.get(code, 0), len(reasons)
            self._reasons[code] = count
            if count == first:
                continue
            reason = reasons[first if first < count else 0]
            function = code.co_filename, code.co_firstlineno, code.co_name
            yield CompiledAgain(function, str(reason))


def _utils() -> Any:
    return _MODULES.get("torch._dynamo.utils")


def _ns(time_us: int | None) -> int:
    return 1_000 * (time_us or 0)
