"""Reads `trace.json.gz`, the Chrome trace that JAX's profiler writes beside `xplane.pb`.

JAX cuts this file off at a million events, and it lacks what a device's plane says of the device:
where an `xplane.pb` lies beside it, that is the file to read. Times are µs from the start of the
recording, with fractions. Names of processes and threads come before the events, in metadata.
Written from the published writer (`trace_events_to_json`); a file of a GPU was not at hand.
"""

import os
from collections.abc import Iterable
from itertools import islice
from typing import Any

import msgspec

from lightning_gpuprof.traces.builder import TimelineBuilder
from lightning_gpuprof.traces.files import integer, read_blocks
from lightning_gpuprof.traces.jax.jax_xplane import (
    DETAIL,
    DEVICE,
    OPERATIONS,
    STREAM,
    device_work,
    host_category,
)
from lightning_gpuprof.traces.kineto.event_stream import EventStream
from lightning_gpuprof.traces.sniff import JAX_CHROME, Head, ReadOptions
from lightning_gpuprof.traces.timeline import Timeline

JAX_EVENTS = 1_000_000
"""The events at which JAX cuts the file off."""
MOST_EVENTS = 1 << 21
"""Events that are read; no file of JAX holds as many."""


class _Event(msgspec.Struct, gc=False):
    ph: str = ""
    name: str = ""
    pid: int = 0
    tid: int = 0
    ts: float = 0.0
    dur: float = 0.0
    args: dict[str, Any] = {}


_MANY = msgspec.json.Decoder(list[_Event])
_SINGLE = msgspec.json.Decoder(_Event)


def matches(head: Head) -> bool:
    """Return whether a file is JAX's, and there is no `xplane.pb` beside it to be read instead."""
    is_json = head.data.lstrip()[:1] in (b"[", b"{")
    return is_json and JAX_CHROME.search(head.data) is not None and not _has_planes(head.path)


def _has_planes(path: str) -> bool:
    names = os.listdir(os.path.dirname(os.path.abspath(path)))
    return any(name.endswith((".xplane.pb", "xplane.pb.gz")) for name in names)


def read(path: str, options: ReadOptions) -> Timeline:
    """Read kernels, copies and host events."""
    builder = TimelineBuilder("jax-json")
    reader = _Reader(builder, options)
    stream = EventStream(
        read_blocks(path, builder.warnings, options.progress),
        _MANY.decode,
        _decoded,
        builder.warnings.append,
    )
    count = 0
    for events in stream:
        reader.add(islice(events, MOST_EVENTS - count))
        count += len(events)
        if count >= MOST_EVENTS:
            builder.warnings.append(
                f"The file holds more than {MOST_EVENTS:,} events; the others are left out."
            )
            break
    if JAX_EVENTS <= count < MOST_EVENTS:
        builder.warnings.append(
            "JAX cuts this file off at a million events: later ones are missing. The xplane.pb of "
            "the same recording holds all."
        )
    return builder.build()


def _decoded(text: bytes) -> _Event | None:
    try:
        return _SINGLE.decode(text)
    except (msgspec.MsgspecError, ValueError):
        return None


class _Reader:
    """Adds the events of a file, whose processes are planes and whose threads are lines."""

    def __init__(self, builder: TimelineBuilder, options: ReadOptions) -> None:
        self._builder, self._options = builder, options
        self._planes: dict[int, str] = {}
        self._lines: dict[tuple[int, int], str] = {}
        self._with_streams: set[int] = set()

    def add(self, events: Iterable[_Event]) -> None:
        for event in events:
            if event.ph == "M":
                self._add_name(event)
            elif event.ph == "X":
                device = DEVICE.search(self._planes.get(event.pid, ""))
                if device is None:
                    self._add_host(event)
                else:
                    self._add_work(event, int(device[2]))

    def _add_name(self, event: _Event) -> None:
        name = str(event.args.get("name", ""))
        if event.name == "process_name":
            self._planes[event.pid] = name
        elif event.name == "thread_name":
            self._lines[event.pid, event.tid] = name
            if STREAM.match(name):
                self._with_streams.add(event.pid)

    def _add_work(self, event: _Event, device: int) -> None:
        """Add work of a device; its other lines are ranges that the profiler derives from that."""
        line = self._lines.get((event.pid, event.tid), "")
        stream = STREAM.match(line)
        if not stream and (event.pid in self._with_streams or line != OPERATIONS):
            return
        details = dict(DETAIL.findall(str(event.args.get("memcpy_details", ""))))
        self._builder.device(
            *_times(event),
            *device_work(event.name, details),
            device,
            int(stream[1]) if stream else event.tid,
            integer(str(event.args.get("correlation_id", ""))),
            integer(details.get("size")),
        )

    def _add_host(self, event: _Event) -> None:
        name, category = event.name, host_category(event.name)
        if category == "python_function" and not self._options.stacks:
            return
        if "step_num" in event.args:
            name, category = f"{name}#{event.args['step_num']}", "user_annotation"
        line = self._lines.get((event.pid, event.tid))
        thread = self._builder.thread(event.pid, event.tid, line)
        correlation = integer(str(event.args.get("correlation_id", "")))
        self._builder.host(*_times(event), name, category, thread, correlation)


def _times(event: _Event) -> tuple[int | None, int | None]:
    try:
        start = round(event.ts * 1000)
        return start, start + round(event.dur * 1000)
    except (OverflowError, ValueError):  # not finite
        return None, None
