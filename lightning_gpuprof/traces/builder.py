"""Collects a trace's rows in any order and makes the `Timeline` of them."""

from collections.abc import Sequence

import numpy as np

from lightning_gpuprof.arrays import Int64
from lightning_gpuprof.traces import timeline
from lightning_gpuprof.traces.columns import LIMIT_NS, LONGEST_NS, Indexer, Threads, ids, plain_id

_HOST = ("start_ns", "dur_ns", "name", "category", "thread", "correlation")
_DEVICE = ("start_ns", "dur_ns", "name", "category", "device", "stream", "correlation", "num_bytes")
_Int = int | None
_Row = tuple[_Int, ...]
_PROCESS_SHIFT = 40
"""Correlation ids count from 0 in each process; 2^40 launches are more than a trace holds."""


class TimelineBuilder:
    """Collects events for the readers of every source but Kineto; times are absolute, in ns.

    An event is left out, and counted in a warning, if it has no end, ends before it starts, or has
    an impossible time. Devices that the file does not describe are of the given `vendor`.
    """

    def __init__(self, source: str, *, vendor: str | None = None) -> None:
        self.warnings: list[str] = []
        self._source, self._vendor = source, vendor
        self._names, self._threads = Indexer(), Threads()
        self._thread_names: dict[tuple[int | str, int | str], str] = {}
        self._host: list[_Row] = []
        self._device: list[_Row] = []
        self._processes: dict[int, int] = {}
        self._left_out = 0

    def thread(self, pid: int | str | None, tid: int | str | None, name: str | None = None) -> int:
        """Return the index of a host thread; a new one is added. Unknown ids count as 0."""
        if name:
            self.name_thread(pid or 0, tid or 0, name)
        return self._threads[pid or 0, tid or 0]

    def name_thread(self, pid: int | str, tid: int | str, name: str) -> None:
        """Set a thread's name; it is dropped if the thread has no events."""
        self._thread_names[plain_id(pid), plain_id(tid)] = name

    def of_process(self, call: int | None, process: int | None) -> int | None:
        """Return a correlation id that is unique among the processes of the file."""
        if call is None or process is None:
            return call
        return call + (self._processes.setdefault(process, len(self._processes)) << _PROCESS_SHIFT)

    def host(
        self,
        start: int | None,
        end: int | None,
        name: str | None,
        category: str,
        thread: int,
        correlation: int | None = None,
    ) -> None:
        """Add an event of a host thread."""
        self._add(self._host, start, end, name, category, thread, correlation)

    def device(
        self,
        start: int | None,
        end: int | None,
        name: str | None,
        category: str,
        device: int | None,
        stream: int | None,
        correlation: int | None = None,
        num_bytes: int | None = None,
    ) -> None:
        """Add a kernel, copy or fill of a device."""
        columns = (device, stream, correlation, num_bytes)
        self._add(self._device, start, end, name, category, *columns)

    def _add(
        self, rows: list[_Row], start: _Int, end: _Int, name: str | None, kind: str, *columns: _Int
    ) -> None:
        if (
            isinstance(start, int)
            and isinstance(end, int)
            and -LIMIT_NS < start <= end < LIMIT_NS
            and end - start < LONGEST_NS
        ):
            index = self._names[str(name) if name else "unnamed"]
            rows.append((start, end - start, index, timeline.CATEGORY_ID[kind], *columns))
        else:
            self._left_out += 1

    def build(self, *, devices: Sequence[timeline.DeviceInfo] = ()) -> timeline.Timeline:
        """Make the timeline, with its origin at the earliest start."""
        if self._left_out:
            self.warnings.append(
                f"{self._left_out} events have no end after their start; they are left out."
            )
        host = _columns(self._host, _HOST)
        device = _columns(self._device, _DEVICE)
        starts = [columns["start_ns"] for columns in (host, device)]
        origin = min((int(start.min()) for start in starts if len(start)), default=0)
        for start in starts:
            start -= origin
        events = timeline.make_table(timeline.DeviceEvents, **device)
        used = set(np.unique(events.device).tolist()) - {timeline.MISSING}
        used -= {described.id for described in devices}
        undescribed = (timeline.DeviceInfo(number, None, self._vendor) for number in used)
        return timeline.Timeline(
            source=self._source,
            origin_ns=origin,
            names=tuple(self._names),
            host=timeline.make_table(timeline.HostEvents, **host),
            device=events,
            threads=self._threads.table(self._thread_names),
            devices=sorted([*devices, *undescribed], key=lambda device: device.id),
            warnings=tuple(self.warnings),
        )


def copy_name(direction: str, source: str | None = None, target: str | None = None) -> str:
    """Return a copy's name in Kineto's form, which all readers use."""
    kinds = f" ({source} -> {target})" if source and target else ""
    return f"Memcpy {direction}{kinds}"


def _columns(rows: list[_Row], names: tuple[str, ...]) -> dict[str, Int64]:
    by_row = zip(*rows, strict=True) if rows else ((),) * len(names)
    return {name: ids(values) for name, values in zip(names, by_row, strict=True)}
