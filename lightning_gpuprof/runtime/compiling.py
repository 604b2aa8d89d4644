"""Notes what torch.compile compiled, where it broke its graph and why it compiled again."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from lightning_gpuprof.adapters.dynamo import compiled, counters, spent_ns, told
from lightning_gpuprof.records.facts import CompileTime
from lightning_gpuprof.records.lines import CompileEvent
from lightning_gpuprof.runtime.context import RunContext
from lightning_gpuprof.runtime.guard import attempt
from lightning_gpuprof.runtime.places import USER, Place, package_of, shown

_NUMBER = re.compile(r"^\d+/\d+: ")
"""Which compilation failed a guard: `0/7: `."""
_BEHIND = re.compile(r"\s+#\s.*|\s*\(HINT.*")
"""What comes behind the guard: the line that made it, and torch's advice."""
_HINT = re.compile(r"^\s*Hint: (.*)$", re.MULTILINE)
_LONGEST = 200
_BY_VALUE = "a branch or loop goes by a tensor's value"
"""For dynamo a `generic_jump`."""


class CompileNotes:
    """Writes them to a run; `flag` flags the step of the batch that began last, and returns it."""

    def __init__(self, context: RunContext, flag: Callable[[], int | None]) -> None:
        self._context, self._flag = context, flag
        self._count, self._spent_ns = compiled(), spent_ns()
        self._written = set(compile_events())

    def look(self) -> Mapping[str, Any] | None:
        """Note the compilations since the last call; returns dynamo's counters, once they exist."""
        found = counters()
        if found is None:
            return None
        before, self._count = self._count, compiled()
        if self._count > before:
            spent_before, self._spent_ns = self._spent_ns, spent_ns()
            # A reset of dynamo begins anew.
            took_ns = self._spent_ns - (spent_before if self._spent_ns >= spent_before else 0)
            step = self._flag()
            if took_ns and step is not None:
                self._context.write(CompileTime(step, took_ns))
            for event in compile_events():
                if event not in self._written:
                    self._written.add(event)
                    self._context.write(event)
        return found


def compile_events() -> list[CompileEvent]:
    """Return the graph breaks and recompilations of this process so far, each once."""
    events = [_event(*one) for one in attempt(lambda: list(told()), []) if one[-1]]
    return list({(one.place.file, one.place.line, one.reason): one for one in events}.values())


def _event(what: str, text: str, stack: list[Place]) -> CompileEvent:
    own = [place for place in stack if package_of(place[0]) == USER] or stack
    reason = _BEHIND.sub("", _NUMBER.sub("", text.strip()).partition("\n")[0])[:_LONGEST]
    hint = _HINT.search(text)
    return CompileEvent(
        what=what,
        reason=_BY_VALUE if reason.startswith("generic_jump") else reason,
        hint="" if hint is None else hint[1][:_LONGEST],
        place=shown(own[-1]),
    )
