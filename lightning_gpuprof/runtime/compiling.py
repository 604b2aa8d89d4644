"""Records what torch.compile compiled, where it broke its graph and why it compiled again."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from lightning_gpuprof.adapters.dynamo import compiled, counters, events, spent_ns
from lightning_gpuprof.records.facts import CompileTime
from lightning_gpuprof.records.lines import CompileEvent
from lightning_gpuprof.runtime.context import RunContext
from lightning_gpuprof.runtime.guard import attempt
from lightning_gpuprof.runtime.places import USER, Place, package_of, shown

_COMPILATION_NUMBER = re.compile(r"^\d+/\d+: ")
"""What precedes a guard in dynamo's text: the compilation whose guard failed, such as `0/7: `."""
_AFTER_GUARD = re.compile(r"\s+#\s.*|\s*\(HINT.*")
"""What follows a guard in dynamo's text: the line that made the guard, and torch's advice."""
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
        self._written = set(compile_events())

    def write_new(self) -> Mapping[str, Any] | None:
        """Record the compilations since the last call.

        Returns dynamo's counters, or None while nothing has imported dynamo.
        """
        dynamo_counters = counters()
        if dynamo_counters is None:
            return None
        count_before, self._count = self._count, compiled()
        if self._count > count_before:
            spent_before, self._spent_ns = self._spent_ns, spent_ns()
            # `torch._dynamo.reset()` sets the time back to 0.
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
    """Return the graph breaks and recompilations of this process so far, without duplicates."""
    all_events = [_event(*event) for event in attempt(lambda: list(events()), []) if event[-1]]
    by_place = {(event.place.file, event.place.line, event.reason): event for event in all_events}
    return list(by_place.values())


def _event(what: str, text: str, stack: list[Place]) -> CompileEvent:
    users_places = [place for place in stack if package_of(place[0]) == USER] or stack
    first_line = _COMPILATION_NUMBER.sub("", text.strip()).partition("\n")[0]
    reason = _AFTER_GUARD.sub("", first_line)[:_MOST_CHARACTERS]
    hint = _HINT.search(text)
    return CompileEvent(
        what=what,
        reason=_BRANCH_ON_TENSOR if reason.startswith("generic_jump") else reason,
        hint="" if hint is None else hint[1][:_MOST_CHARACTERS],
        place=shown(users_places[-1]),
    )
