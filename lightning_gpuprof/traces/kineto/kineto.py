"""Reads what torch.profiler exports: Kineto's Chrome trace JSON, gzipped or not.

All layouts are read, of NVIDIA and AMD: a bare list of events (2020), the categories
`Operator`/`Runtime`/`Kernel` (2021), and today's.
"""

import gc
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import msgspec
import numpy as np

from lightning_gpuprof.traces import timeline
from lightning_gpuprof.traces.columns import LIMIT_NS, LONGEST_NS, decode_arguments
from lightning_gpuprof.traces.files import read_blocks
from lightning_gpuprof.traces.kineto.collect import Collector, NeedsExactTimesError
from lightning_gpuprof.traces.kineto.event_stream import EventStream
from lightning_gpuprof.traces.kineto.events import Event, Times, exact_ns, exact_ns_of
from lightning_gpuprof.traces.kineto.passed_over import sentence, survey
from lightning_gpuprof.traces.kineto.ranks import RankDevice, separated
from lightning_gpuprof.traces.sniff import OTHER_CHROME, Head, ReadOptions

_START = re.compile(
    rb'\[\s*\{[^{}]*"ph"|"traceEvents"\s*:|\{\s*"(?:schemaVersion|deviceProperties)"'
    # A list whose first event is empty, or has its arguments before its phase.
    rb'|\A(?:\xef\xbb\xbf)?\s*\[\s*(?:\{\}\s*,\s*)?\{(?:[^{}]|\{[^{}]*\})*?"ph"'
)
UNREAD_FRAC = 0.01
"""Events of unknown kinds are named if they take this share of all events' time."""
_MAKERS = {
    "amd": ("amd", "radeon", "instinct", "gfx"),
    "nvidia": ("nvidia", "tesla", "geforce", "quadro", "rtx", "titan"),
    "intel": ("intel",),
}


def matches(head: Head) -> bool:
    """Return whether a file starts like a Chrome trace."""
    return _START.search(head.data) is not None and not OTHER_CHROME.search(head.data)


def read(path: str, options: ReadOptions) -> timeline.Timeline:
    """Read a Kineto trace; damaged files give what they hold, with a warning."""
    with _no_garbage_collection():
        try:
            return _read(path, options, exact=False)
        except NeedsExactTimesError:
            return _read(path, options, exact=True)


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Switch garbage collection off: searching millions of events for cycles costs seconds."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _read(path: str, options: ReadOptions, *, exact: bool) -> timeline.Timeline:
    warnings: list[str] = []
    decoder = _Decoder(exact=exact)
    collector = Collector(options, exact=exact)
    stream = EventStream(
        read_blocks(path, warnings, options.progress),
        decoder.many,
        decoder.single,
        warnings.append,
    )
    for events in stream:
        collector.add(events)
    return _timeline(path, collector, stream.header, warnings)


class _Decoder:
    """Decodes lists of events, and single ones that a typed decoder refuses."""

    def __init__(self, *, exact: bool) -> None:
        self._events = msgspec.json.Decoder(list[Event])
        self._loose = msgspec.json.Decoder(Event, strict=False)
        self._times = msgspec.json.Decoder(list[Times])
        self._exact = exact

    def many(self, text: memoryview | bytes | msgspec.Raw) -> list[Event]:
        events = self._events.decode(text)
        if self._exact:
            times = self._times.decode(text)
            start_ns = exact_ns_of([time.ts for time in times])
            timed = [
                time.dur if event.dur is not None else b"0.000"
                for event, time in zip(events, times, strict=True)
            ]
            dur_ns = exact_ns_of(timed)
            if max(np.abs(column).max(initial=0) for column in (start_ns, dur_ns)) > LIMIT_NS:
                # `EventStream` then decodes single events, and leaves out those.
                raise msgspec.ValidationError("a time is out of range")
            for event, start, dur in zip(events, start_ns.tolist(), dur_ns.tolist(), strict=True):
                event.ts = start
                event.dur = None if event.dur is None else dur
        return events

    def single(self, text: bytes) -> Event | None:
        """Read an event whose values are of unexpected types, such as times as strings."""
        try:
            # JSON strings may not hold raw control characters.
            values = msgspec.json.decode(re.sub(rb"[\x00-\x1f]", b" ", text))
            for key in ("name", "cat", "ph"):
                if values.get(key) is not None:
                    values[key] = str(values[key])
            if not isinstance(values.get("args"), dict):
                values.pop("args", None)
            for key in ("ts", "dur"):
                if key in values:
                    ns = exact_ns(str(values[key]).encode())
                    if abs(ns) > LIMIT_NS:
                        return None
                    values[key] = ns if self._exact else ns / 1000
            # By way of JSON: `msgspec.convert` cannot make fields of raw text, such as shapes.
            return self._loose.decode(msgspec.json.encode(values))
        except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError):
            return None


def _timeline(
    path: str, collector: Collector, header: dict[str, Any], warnings: list[str]
) -> timeline.Timeline:
    if collector.unfinished:
        warnings.append(f"{collector.unfinished} events have no duration and count as 0 ns long.")
    host = collector.host.table(timeline.HostEvents)
    device = collector.device.table(timeline.DeviceEvents)
    memory = collector.memory.table(timeline.MemoryEvents)
    flows = collector.flows.table(timeline.Flows)
    passed_over, tool = _passed_over(path, collector, host, device, header)
    if passed_over:
        warnings.append(sentence(passed_over))
    threads, places = collector.threads.table(collector.thread_names), collector.places.table()
    host, device, flows, devices, threads = separated(threads, places, host, device, flows)
    tables: list[timeline.Table] = [t for t in (host, device, memory, flows) if len(t)]
    negative = 0
    for table in tables:
        odd = (table.dur_ns < 0) | (table.dur_ns > LONGEST_NS)
        negative += int(odd.sum())
        table.dur_ns[odd] = 0
    if negative:
        warnings.append(
            f"{negative} events have a negative or impossible duration and count as 0 ns long."
        )
    # The first start of host or device work, the same whether stacks are read or not.
    calls = host.start_ns[host.category != timeline.CATEGORY_ID["python_function"]]
    starts = [int(column[0]) for column in (calls, device.start_ns) if len(column)]
    origin = min(starts or [int(table.start_ns[0]) for table in tables], default=0)
    for table in tables:
        np.subtract(table.start_ns, origin, out=table.start_ns)
    properties = header.get("deviceProperties") or header.get("computeProperties")
    if not len(host) and not len(device):
        warnings.append(
            "The file holds no events that an analysis could use: no operators, runtime calls or "
            "kernels as torch.profiler writes them. If another tool wrote it, give what it can "
            "export for Nsight Systems, rocprof or JAX, or record with torch.profiler."
        )
    return timeline.Timeline(
        source="kineto",
        origin_ns=origin,
        names=list(collector.names),
        host=host,
        device=device,
        memory=memory,
        flows=flows,
        threads=threads,
        arguments=[decode_arguments(text) for text in collector.arguments],  # type: ignore[arg-type]
        devices=_devices(properties, devices, header, list(collector.names)),
        warnings=tuple(warnings),
        tool=tool,
        passed_over=passed_over,
    )


def _passed_over(
    path: str,
    collector: Collector,
    host: timeline.HostEvents,
    device: timeline.DeviceEvents,
    header: Mapping[str, object],
) -> tuple[tuple[timeline.PassedOver, ...], str | None]:
    """Return the events that were not read, and the tool that wrote them, if they matter.

    They do if they may be a device's work, or by their time.
    """
    if not collector.unread:
        return (), None
    read_ns = int(host.dur_ns.sum()) + int(device.dur_ns.sum())
    many = collector.unread_ns >= UNREAD_FRAC * (read_ns + collector.unread_ns)
    if not (collector.unread_work or many):
        return (), None
    found = survey(path)
    return found.passed_over(), found.tool(header)


def _devices(
    properties: object, used: Mapping[int, RankDevice], header: Mapping[str, Any], names: list[str]
) -> list[timeline.DeviceInfo]:
    """Describe the devices that have events, or all that the file describes where none has."""
    described = {
        int(entry["id"]): entry
        for entry in (properties if isinstance(properties, list) else [])
        if isinstance(entry, dict) and isinstance(entry.get("id"), int)
    }
    used = used or {number: RankDevice(number) for number in described}
    fallback = _vendor_of_calls(header, names) if used else None
    # Events carry the driver's device numbers, descriptions those of the visible devices. Where
    # they differ and all described devices are of one model, the events' devices are of it too.
    models = {str(entry.get("name")) for entry in described.values()}
    common = next(iter(described.values())) if len(models) == 1 else {}
    devices = []
    for index, device in sorted(used.items()):
        values = described.get(device.number, common)
        name = str(values["name"]) if values.get("name") else None
        vendor = _vendor(name) or fallback
        devices.append(timeline.DeviceInfo(index, name, vendor, values, device.rank))
    return devices


def _vendor(name: str | None) -> str | None:
    text = (name or "").lower()
    makers = (maker for maker, words in _MAKERS.items() if any(word in text for word in words))
    return next(makers, None)


def _vendor_of_calls(header: Mapping[str, Any], names: list[str]) -> str | None:
    words = [*header, *names]
    if any("roctracer" in word or re.match(r"hip(_|[A-Z])", word) for word in words):
        return "amd"
    if any(re.match(r"cu(da|pti|Launch)", word) for word in words):
        return "nvidia"
    return "intel" if any(re.match(r"(?:ur|ze)[A-Z]", word) for word in words) else None
