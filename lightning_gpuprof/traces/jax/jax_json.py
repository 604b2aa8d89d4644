"""Reads `trace.json.gz`, the Chrome trace that JAX's profiler writes beside `xplane.pb`.

The profiler caps it at a million events, so `xplane.pb` is the better source. Times are us from
the start of the recording, with fractions. Written from the published writer
(`trace_events_to_json`), and checked with files that JAX 0.10 wrote on a CPU.
"""

import re
from typing import Any

import msgspec

from lightning_gpuprof.traces.builder import TimelineBuilder
from lightning_gpuprof.traces.files import decode_json, integer, read_file
from lightning_gpuprof.traces.jax.jax_xplane import (
    DEVICE,
    STREAM,
    copy_details,
    device_work,
    host_category,
)
from lightning_gpuprof.traces.options import ReadOptions
from lightning_gpuprof.traces.sniff import Head
from lightning_gpuprof.traces.timeline import Timeline

_CAP = 1_000_000
_WRITER = re.compile(rb'"displayTimeUnit"\s*:\s*"ns"\s*,\s*"metadata"\s*:\s*\{\s*"highres-ticks"')
_PLANE = re.compile(rb'"/(?:host|device):[A-Z]+')


class _Event(msgspec.Struct):
    ph: str = ""
    name: str = ""
    pid: int = 0
    tid: int = 0
    ts: float = 0.0
    dur: float = 0.0
    args: dict[str, Any] = {}


class _Trace(msgspec.Struct):
    traceEvents: list[_Event] = []


def matches(head: Head) -> bool:
    """Tell the trace by its writer's mark, or by names of planes."""
    if b'"traceEvents"' not in head.data:
        return False
    if _WRITER.search(head.data):
        return True
    return b'"process_name"' in head.data and bool(_PLANE.search(head.data))


def read(path: str, options: ReadOptions) -> Timeline:
    """Read kernels, copies and host events."""
    builder = TimelineBuilder("jax-json")
    events = decode_json(
        read_file(path, builder.warnings), _Trace, path, builder.warnings
    ).traceEvents
    if len(events) >= _CAP:
        builder.warnings.append(
            "JAX cuts this file off at a million events; analyse the xplane.pb beside it instead."
        )
    planes = _labels(events, "process_name", by_thread=False)
    lines = _labels(events, "thread_name", by_thread=True)
    streamed = {pid for (pid, _), name in lines.items() if STREAM.match(name)}
    for event in events:
        if event.ph == "X":
            plane = planes.get((event.pid, 0), "")
            line = lines.get((event.pid, event.tid), "")
            if device := DEVICE.search(plane):
                works = bool(STREAM.match(line)) if event.pid in streamed else line == "XLA Ops"
                if works:
                    _on_device(builder, event, int(device[2]), line)
            else:
                _on_host(builder, event, line, options)
    return builder.build()


def _labels(events: list[_Event], kind: str, *, by_thread: bool) -> dict[tuple[int, int], str]:
    return {
        (event.pid, event.tid if by_thread else 0): str(event.args.get("name", ""))
        for event in events
        if event.ph == "M" and event.name == kind
    }


def _on_device(builder: TimelineBuilder, event: _Event, device: int, line: str) -> None:
    start, end = _times(event)
    stream = STREAM.match(line)
    number = int(stream[1]) if stream else event.tid
    details = copy_details(event.args)
    name, category = device_work(event.name, details)
    correlation = integer(str(event.args.get("correlation_id", "")))
    size = integer(details.get("size"))
    builder.device(start, end, builder.name(name), category, device, number, correlation, size)


def _on_host(builder: TimelineBuilder, event: _Event, line: str, options: ReadOptions) -> None:
    category = host_category(event.name)
    if category == "python_function" and not options.stacks:
        return
    text = event.name
    if "step_num" in event.args:
        text, category = f"{text}#{event.args['step_num']}", "user_annotation"
    start, end = _times(event)
    thread = builder.thread(event.pid, event.tid, line)
    correlation = integer(str(event.args.get("correlation_id", "")))
    builder.host(start, end, builder.name(text), category, thread, correlation)


def _times(event: _Event) -> tuple[int, int]:
    start = round(event.ts * 1000)
    return start, start + round(event.dur * 1000)
