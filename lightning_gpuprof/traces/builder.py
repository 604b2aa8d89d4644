"""Collects a trace's rows in any order and makes the `Timeline` of them."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from lightning_gpuprof.arrays import Int64
from lightning_gpuprof.traces.files import integer
from lightning_gpuprof.traces.timeline import (
    CATEGORY_ID,
    MISSING,
    DeviceEvents,
    DeviceInfo,
    Flows,
    HostEvents,
    MemoryEvents,
    SyncEvents,
    Thread,
    Timeline,
    make_table,
)

_HOST = ("start_ns", "dur_ns", "name", "category", "thread", "correlation")
_DEVICE = ("start_ns", "dur_ns", "name", "category", "device", "stream", "correlation", "num_bytes")
_INT64_MAX = 2**63 - 1
_LIMIT_NS = 2**62
"""Later times are damage; the difference of two earlier ones fits into int64."""
_PROCESS_SHIFT = 40
"""Correlation ids count from 0 in each process; 2^40 launches are more than a trace holds."""


class TimelineBuilder:
    """Collects events for the readers of every source but Kineto; times are absolute, in ns.

    An event without an end, that ends before it starts, or at a time that no clock shows, is left
    out and counted in a warning.

    Args:
        source: Name of the kind of file.
        vendor: Whose devices such files are of, for those that the file does not describe.

    >>> builder = TimelineBuilder("nsys")
    >>> builder.host(5, 9, builder.name("cudaLaunchKernel"), "cuda_runtime", builder.thread(1, 1))
    >>> timeline = builder.build()
    >>> timeline.origin_ns, timeline.host.dur_ns.tolist()
    (5, [4])
    """

    def __init__(self, source: str, *, vendor: str | None = None) -> None:
        self.warnings: list[str] = []
        self._source, self._vendor = source, vendor
        self._names: dict[str, int] = {}
        self._threads: dict[tuple[int | str, int | str], int] = {}
        self._thread_names: dict[int, str] = {}
        self._host: list[tuple[int, ...]] = []
        self._device: list[tuple[int, ...]] = []
        self._syncs: list[tuple[int, ...]] = []
        self._processes: dict[int, int] = {}
        self._chunks: dict[str, list[dict[str, Int64]]] = {"host": [], "device": []}
        self._cut = 0

    def name(self, text: str | None) -> int:
        """Return the index of a name, adding it where it is new; none is `unnamed`."""
        return self._names.setdefault(text or "unnamed", len(self._names))

    def thread(self, pid: int | str, tid: int | str, name: str | None = None) -> int:
        """Return the index of a host thread, adding it where it is new."""
        index = self._threads.setdefault((pid, tid), len(self._threads))
        if name:
            self._thread_names[index] = name
        return index

    def name_thread(self, pid: int | str, tid: int | str, name: str) -> None:
        """Name a thread, where it has events."""
        if (pid, tid) in self._threads:
            self._thread_names[self._threads[pid, tid]] = name

    def process_offset(self, process: int) -> int:
        """Return what to add to a process's correlation ids to keep them apart from others'.

        The first process keeps its own.
        """
        return self._processes.setdefault(process, len(self._processes)) << _PROCESS_SHIFT

    def host(
        self,
        start: int | None,
        end: int | None,
        name: int,
        category: str,
        thread: int,
        correlation: int | None = None,
    ) -> None:
        """Add what a host thread did."""
        self._add(self._host, start, end, name, CATEGORY_ID[category], thread, _id(correlation))

    def device(
        self,
        start: int | None,
        end: int | None,
        name: int,
        category: str,
        device: int | None,
        stream: int | None,
        correlation: int | None = None,
        num_bytes: int | None = None,
    ) -> None:
        """Add a kernel, copy, fill (or, in category `cuda_sync`, a wait) of a device."""
        where = (_id(device), _id(stream), _id(correlation), _id(num_bytes))
        rows = self._syncs if category == "cuda_sync" else self._device
        self._add(rows, start, end, name, CATEGORY_ID[category], *where)

    def _add(
        self, rows: list[tuple[int, ...]], start: int | None, end: int | None, *values: int
    ) -> None:
        if start is None or end is None or not -_LIMIT_NS < start <= end < _LIMIT_NS:
            self._cut += 1
        else:
            rows.append((start, end - start, *values))

    def extend_host(
        self, start: Int64, end: Int64, name: Int64, category: Int64, thread: Int64, ids: Int64
    ) -> None:
        """Add many events of host threads at once; categories are indexes, `ids` correlations."""
        columns = dict(zip(_HOST, (start, end - start, name, category, thread, ids), strict=True))
        self._extend("host", columns)

    def extend_device(
        self,
        start: Int64,
        end: Int64,
        name: Int64,
        category: str,
        device: Int64,
        stream: Int64,
        ids: Int64,
    ) -> None:
        """Add many events of one category of a device at once; `ids` are correlations."""
        fixed = (np.full(len(start), value) for value in (CATEGORY_ID[category], MISSING))
        kind, no_bytes = fixed
        values = (start, end - start, name, kind, device, stream, ids, no_bytes)
        self._extend("device", dict(zip(_DEVICE, values, strict=True)))

    def _extend(self, table: str, columns: dict[str, Int64]) -> None:
        whole = columns["dur_ns"] >= 0
        self._cut += int((~whole).sum())
        self._chunks[table].append({name: values[whole] for name, values in columns.items()})

    def build(
        self,
        *,
        devices: Sequence[DeviceInfo] = (),
        metadata: Mapping[str, object] | None = None,
    ) -> Timeline:
        """Make the timeline, with its origin at the earliest start."""
        tables = {
            "host": _columns(self._host, _HOST, self._chunks["host"]),
            "device": _columns(self._device, _DEVICE, self._chunks["device"]),
            "syncs": _columns(self._syncs, _DEVICE),
        }
        starts = [columns["start_ns"] for columns in tables.values()]
        origin = min((int(start.min()) for start in starts if len(start)), default=0)
        for start in starts:
            start -= origin
        device = make_table(DeviceEvents, **tables["device"])
        threads = [
            Thread(pid, tid, self._thread_names.get(index))
            for (pid, tid), index in self._threads.items()
        ]
        return Timeline(
            source=self._source,
            origin_ns=origin,
            names=tuple(self._names),
            host=make_table(HostEvents, **tables["host"]),
            device=device,
            syncs=make_table(SyncEvents, **tables["syncs"]),
            memory=make_table(MemoryEvents),
            flows=make_table(Flows),
            threads=threads,
            devices=_all_devices(devices, device, self._vendor),
            metadata=metadata or {},
            warnings=tuple(self._warnings()),
        )

    def _warnings(self) -> Iterable[str]:
        yield from self.warnings
        if self._cut:
            yield f"{self._cut} events have no end after their start; they are left out."


def copy_name(direction: str, source: str | None = None, target: str | None = None) -> str:
    """Return a copy's name as Kineto writes it, whatever the source calls it.

    >>> copy_name("HtoD", "Pageable", "Device"), copy_name("DtoD")
    ('Memcpy HtoD (Pageable -> Device)', 'Memcpy DtoD')
    """
    kinds = f" ({source} -> {target})" if source and target else ""
    return f"Memcpy {direction}{kinds}"


def _id(value: object) -> int:
    """Fit an id into int64; unsigned 64-bit ids keep their bits, none is `MISSING`.

    >>> _id(7), _id("0x10"), _id(None), _id(2**64 - 1), _id(2**70), _id("stream")
    (7, 16, -1, -1, -1, -1)
    """
    number = value if isinstance(value, int) else integer(None if value is None else str(value))
    if number is None or not -(2**63) <= number < 2**64:
        return MISSING
    return number if number <= _INT64_MAX else number - 2**64


def _columns(
    rows: list[tuple[int, ...]], names: tuple[str, ...], chunks: Sequence[dict[str, Int64]] = ()
) -> dict[str, Int64]:
    by_row = zip(*rows, strict=True) if rows else ((),) * len(names)
    return {
        name: np.concatenate([np.array(values, dtype=np.int64), *(chunk[name] for chunk in chunks)])
        for name, values in zip(names, by_row, strict=True)
    }


def _all_devices(
    described: Sequence[DeviceInfo], events: DeviceEvents, vendor: str | None
) -> list[DeviceInfo]:
    known = {device.id for device in described}
    seen = [int(i) for i in np.unique(events.device) if i not in known and i != MISSING]
    others = (DeviceInfo(i, None, vendor) for i in seen)
    return sorted([*described, *others], key=lambda device: device.id)
