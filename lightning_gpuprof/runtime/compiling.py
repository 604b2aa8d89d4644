"""Notes what torch.compile compiled, where it broke its graph and why it compiled again."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from lightning_gpuprof.adapters.dynamo import compiled, counters, events, spent_ns
from lightning_gpuprof.records.facts import CompileTime
from lightning_gpuprof.records.lines import CompileEvent
from lightning_gpuprof.runtime.context import RunContext
from lightning_gpuprof.runtime.guard import attempt
from lightning_gpuprof.runtime.places import USER, Place, package_of, shown

_NUMBER = re.compile(r"^\d+/\d+: ")
"""Which compilation failed a guard: `0/7: `."""
_AFTER_GUARD = re.compile(r"\s+#\s.*|\s*\(HINT.*")
"""What follows the guard: the line that made it, and torch's advice."""
_HINT = re.compile(r"^\s*Hint: (.*)$", re.MULTILINE)
_LONGEST = 200
_BY_VALUE = "a branch or loop goes by a tensor's value"
"""What dynamo calls a `generic_jump`."""


class CompileNotes:
    """Writes what torch.compile did to a run's records.

    `flag` flags the step of the batch that began last, and returns its number.
    """

    def __init__(self, context: RunContext, flag: Callable[[], int | None]) -> None:
        self._context, self._flag = context, flag
        self._count, self._spent_ns = compiled(), spent_ns()
        self._written = set(compile_events())

    def look(self) -> Mapping[str, Any] | None:
        """Write the compilations since the last call; return dynamo's counters, once they exist."""
        dynamo_counters = counters()
        if dynamo_counters is None:
            return None
        before, self._count = self._count, compiled()
        if self._count > before:
            spent_before, self._spent_ns = self._spent_ns, spent_ns()
            # A reset of dynamo sets its time to 0.
            took_ns = self._spent_ns - (spent_before if self._spent_ns >= spent_before else 0)
            step = self._flag()
            if took_ns and step is not None:
                self._context.write(CompileTime(step, took_ns))
            for event in compile_events():
                if event not in self._written:
                    self._written.add(event)
                    self._context.write(event)
        return dynamo_counters


def compile_events() -> list[CompileEvent]:
    """Return the graph breaks and recompilations of this process so far, each once."""
    noted = [_event(*event) for event in attempt(lambda: list(events()), []) if event[-1]]
    by_place = {(event.place.file, event.place.line, event.reason): event for event in noted}
    return list(by_place.values())


def _event(what: str, text: str, stack: list[Place]) -> CompileEvent:
    own = [place for place in stack if package_of(place[0]) == USER] or stack
    reason = _AFTER_GUARD.sub("", _NUMBER.sub("", text.strip()).partition("\n")[0])[:_LONGEST]
    hint = _HINT.search(text)
    return CompileEvent(
        what=what,
        reason=_BY_VALUE if reason.startswith("generic_jump") else reason,
        hint="" if hint is None else hint[1][:_LONGEST],
        place=shown(own[-1]),
    )
