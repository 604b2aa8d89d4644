"""Records what torch.compile compiled, where it broke its graph and why it compiled again."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from lightning_gpuprof.adapters.dynamo import (
    CompiledAgain,
    CompileLog,
    GraphBreak,
    compiled,
    counters,
    spent_ns,
)
from lightning_gpuprof.adapters.guard_reasons import parse_reason
from lightning_gpuprof.records.facts import CompileTime
from lightning_gpuprof.records.lines import CodePlace, CompileEvent, Recompilation
from lightning_gpuprof.runtime.context import RunContext
from lightning_gpuprof.runtime.guard import attempt
from lightning_gpuprof.runtime.places import USER, Place, package_of, shown

GRAPH_BREAK = "graph break"
_HINT = re.compile(r"^\s*Hint: (.*)$", re.MULTILINE)
_MOST_CHARACTERS = 200
_BRANCH_ON_TENSOR = "a branch or loop depends on a tensor's value"
"""The reason that is recorded where dynamo says `generic_jump`."""


class CompileRecords:
    """Writes records of what torch.compile does during a session.

    Args:
        context: The session.
        flag: Flags the step of the batch that began last, and returns the step's number.
    """

    def __init__(self, context: RunContext, flag: Callable[[], int | None]) -> None:
        self._context, self._flag = context, flag
        self._count, self._spent_ns = compiled(), spent_ns()
        self._log = CompileLog()
        self._places: dict[Place, CodePlace] = {}
        self._breaks: set[tuple[str, int, str]] = set()

    def write_new(self) -> Mapping[str, Any] | None:
        """Record the compilations since the last call.

        Returns dynamo's counters, or None while nothing has imported dynamo.
        """
        dynamo_counters = counters()
        if dynamo_counters is None:
            return None
        count_before, self._count = self._count, compiled()
        if self._count > count_before:
            self._write(self._flag())
        return dynamo_counters

    def _write(self, step: int | None) -> None:
        spent_before, self._spent_ns = self._spent_ns, spent_ns()
        # `torch._dynamo.reset()` sets the time back to 0.
        took_ns = self._spent_ns - (spent_before if self._spent_ns >= spent_before else 0)
        # Dynamo's lists are private: a failure leaves the times that are known.
        again: list[CompiledAgain] = attempt(self._log.compiled_again, [])
        if step is not None:
            if took_ns:
                self._context.write(CompileTime(step, took_ns, *self._log.graphs))
            for compilation in again:
                self._context.write(_recompilation(step, compilation, self._shown))
        breaks: list[GraphBreak] = attempt(self._log.graph_breaks, [])
        for event in (_broken(graph_break, self._shown) for graph_break in breaks):
            if (key := _key(event)) not in self._breaks:
                self._breaks.add(key)
                self._context.write(event)

    def _shown(self, place: Place) -> CodePlace:
        """Return a place as a record shows it, which is read from its file only once."""
        if place not in self._places:
            self._places[place] = shown(place)
        return self._places[place]


def all_graph_breaks() -> tuple[CompileEvent, ...]:
    """Return the graph breaks of this process so far, without duplicates."""
    breaks = attempt(CompileLog(from_start=True).graph_breaks, [])
    events = (_broken(graph_break, shown) for graph_break in breaks)
    return tuple({_key(event): event for event in events}.values())


def all_recompilations() -> tuple[Recompilation, ...]:
    """Return the functions that this process compiled again, once for each reason."""
    log = CompileLog(from_start=True)
    again = [_recompilation(0, entry, shown) for entry in attempt(log.compiled_again, [])]
    return tuple({(entry.function, entry.cause, entry.subject): entry for entry in again}.values())


def _recompilation(
    step: int, again: CompiledAgain, shown: Callable[[Place], CodePlace]
) -> Recompilation:
    guard = parse_reason(again.reason)
    own = [place for place in guard.stack if package_of(place[0]) == USER]
    return Recompilation(
        step=step,
        function=shown(again.function),
        cause=guard.cause,
        subject=guard.subject[:_MOST_CHARACTERS],
        reason=guard.reason[:_MOST_CHARACTERS],
        value=guard.value,
        place=shown(own[-1]) if own else None,
        took_ns=again.took_ns,
        limit=again.limit,
    )


def _key(event: CompileEvent) -> tuple[str, int, str]:
    """Return what makes two breaks the same. The function is another one where dynamo resumes."""
    return event.place.file, event.place.line, event.reason


def _broken(graph_break: GraphBreak, shown: Callable[[Place], CodePlace]) -> CompileEvent:
    stack = graph_break.stack
    users_places = [place for place in stack if package_of(place[0]) == USER] or stack
    reason = graph_break.text.strip().partition("\n")[0][:_MOST_CHARACTERS]
    hint = _HINT.search(graph_break.text)
    return CompileEvent(
        what=GRAPH_BREAK,
        reason=_BRANCH_ON_TENSOR if reason.startswith("generic_jump") else reason,
        hint="" if hint is None else hint[1][:_MOST_CHARACTERS],
        place=shown(users_places[-1]),
    )
