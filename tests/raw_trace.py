"""A Kineto trace's events in plain Python, to hold the engine's figures against."""

import gzip
import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Any

ON_DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")
CALLS = ("cuda_runtime", "cuda_driver")


@dataclass(frozen=True)
class Event:
    """One event; times in ns as the file gives them, to the last digit."""

    category: str
    name: str
    thread: int
    start: int
    end: int
    args: dict[str, Any]

    @property
    def dur(self) -> int:
        return self.end - self.start

    def within(self, other: "Event") -> "Event":
        """Return the part inside another event's time, of no length where there is none."""
        start = min(max(self.start, other.start), other.end)
        return replace(self, start=start, end=max(start, min(self.end, other.end)))


class RawTrace:
    """The events of a trace file, earliest first."""

    def __init__(self, path: Path) -> None:
        document = json.loads(gzip.decompress(path.read_bytes()), parse_float=Decimal)
        found = (e for e in document["traceEvents"] if e.get("ph") == "X" and "cat" in e)
        self.events = sorted((_event(e) for e in found), key=lambda event: event.start)

    def of(self, *categories: str) -> list[Event]:
        return [event for event in self.events if event.category in categories]

    @cached_property
    def steps(self) -> dict[int, Event]:
        """The profiler's steps by number."""
        marked = (e for e in self.of("user_annotation") if e.name.startswith("ProfilerStep#"))
        return {int(event.name.partition("#")[2]): event for event in marked}

    @cached_property
    def launches(self) -> dict[int, Event]:
        """The calls with a correlation id, by it."""
        return {e.args["correlation"]: e for e in self.of(*CALLS) if "correlation" in e.args}

    @cached_property
    def launched(self) -> list[tuple[Event, Event]]:
        """What ran on the device with its launching call, in the order of the calls."""
        pairs = [
            (self.launches[event.args["correlation"]], event)
            for event in self.of(*ON_DEVICE)
            if event.args["correlation"] in self.launches
        ]
        return sorted(pairs, key=lambda pair: pair[0].start)


def _event(e: dict[str, Any]) -> Event:
    start, dur = (int(Decimal(e[key]) * 1000) for key in ("ts", "dur"))
    return Event(e["cat"], e["name"], e["tid"], start, start + dur, e.get("args", {}))


def union(events: Iterable[Event]) -> int:
    """Return for how long any of some events ran, in ns."""
    total, until = 0, 0
    for event in sorted(events, key=lambda event: event.start):
        total += max(0, event.end - max(until, event.start))
        until = max(until, event.end)
    return total
