"""Sorts decoded Kineto events into the columns of a Timeline's tables."""

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from lightning_gpuprof.arrays import AnyArray, Int64
from lightning_gpuprof.traces.columns import Columns, Indexer, Threads, ids, numbers, plain_id
from lightning_gpuprof.traces.kineto.events import NOTHING, Args, Event, EventKind, Kind, to_ns
from lightning_gpuprof.traces.kineto.ranks import Place
from lightning_gpuprof.traces.sniff import ReadOptions
from lightning_gpuprof.traces.timeline import CATEGORY_ID, MISSING, OCCUPANCY

_HOST = (Kind.CPU_OP, Kind.USER_ANNOTATION, Kind.CUDA_RUNTIME, Kind.CUDA_DRIVER, Kind.OVERHEAD)
_DEVICE = (Kind.KERNEL, Kind.GPU_MEMCPY, Kind.GPU_MEMSET)
_NO_ARGS = Args()
_DIVISORS = {"occupancy_frac": 100, "blocks_per_sm": 1, "warps_per_sm": 1}


class Places(dict[tuple[int | str | None, int], int]):
    """Gives each pair of process id and device the next index."""

    def __missing__(self, key: tuple[int | str | None, int]) -> int:
        self[key] = index = len(self)
        return index

    def table(self) -> list[Place]:
        """Return the places by index."""
        return [Place(plain_id(pid), device) for pid, device in self]


class NeedsExactTimesError(Exception):
    """A float64 does not hold the file's times: read the file again with exact times."""


class Collector:
    """Collects lists of events as columns; `exact` times are integer ns already.

    The device of a device event is an index into `places`.
    """

    def __init__(self, options: ReadOptions, *, exact: bool) -> None:
        self.host, self.device = Columns(), Columns()
        self.memory, self.flows = Columns(), Columns()
        self.names, self.threads, self.arguments = Indexer(), Threads(), Indexer()
        self.places = Places()
        self.thread_names: dict[tuple[int | str, int | str], str] = {}
        self.unfinished = self.unread = self.unread_work = 0
        self._unread_time: float = 0
        self._exact = exact
        self._options = options

    def add(self, events: Sequence[Event]) -> None:
        """Sort one list of events into the tables."""
        groups: dict[Kind | None, list[Event]] = {kind: [] for kind in Kind}
        groups[None] = []
        append = {kind: rows.append for kind, rows in groups.items()}
        for event in events:
            append[event.cat](event)
        host = (*_HOST, Kind.PYTHON_FUNCTION) if self._options.stacks else _HOST
        for add, kinds in ((self._add_host, host), (self._add_device, _DEVICE)):
            for kind in kinds:
                if rows := groups[kind]:
                    add(rows, kind.value)
        if rows := groups[Kind.FORWARD_BACKWARD]:
            self._add_flows(rows)
        if rows := groups[Kind.OTHER] + groups[None]:
            self._pass_over(rows)
        if rows := groups[None] + groups[Kind.INSTANT]:
            self._add_unnamed(rows)

    def _pass_over(self, rows: Sequence[Event]) -> None:
        """Count events with a duration whose category is not known; `Survey` names them."""
        timed = [e for e in rows if e.ph is EventKind.COMPLETE or e.ph is EventKind.BEGIN]
        self.unread += len(timed)
        self.unread_work += sum(1 for e in timed if e.args and e.args.stream not in (MISSING, None))
        self._unread_time += sum(max(0, e.dur) for e in timed if e.dur is not None)

    @property
    def unread_ns(self) -> int:
        """The time of events whose category is not known."""
        return round(self._unread_time * (1 if self._exact else 1000))

    def _ns(self, values: list[Any]) -> Int64:
        try:
            ns = np.array(values, dtype=np.int64) if self._exact else to_ns(values)
        except TypeError:
            if None not in values:
                raise
            self.unfinished += values.count(None)
            return self._ns([0 if value is None else value for value in values])
        if ns is None:
            raise NeedsExactTimesError
        return ns

    def _shared(self, rows: Sequence[Event], category: str) -> dict[str, AnyArray]:
        """Return the columns that events of the host and of devices have in common."""
        lookup = self.names.__getitem__
        return {
            "start_ns": self._ns([e.ts for e in rows]),
            "dur_ns": self._ns([e.dur for e in rows]),
            "name": np.fromiter(map(lookup, [e.name for e in rows]), np.int32, len(rows)),
            "category": np.full(len(rows), CATEGORY_ID[category], dtype=np.int8),
        }

    def _threads(self, rows: Sequence[Event]) -> AnyArray:
        lookup = self.threads.__getitem__
        pairs = zip([e.pid for e in rows], [e.tid for e in rows], strict=True)
        return np.fromiter(map(lookup, pairs), np.int32, len(rows))

    def _add_host(self, rows: list[Event], category: str) -> None:
        columns, args = self._shared(rows, category), [e.args or _NO_ARGS for e in rows]
        if category in ("cuda_runtime", "cuda_driver"):
            columns["correlation"] = ids([a.correlation for a in args])
        elif category in ("cpu_op", "user_annotation"):
            columns["arguments"] = self._argument_ids(args)
        self.host.add(thread=self._threads(rows), **columns)

    def _argument_ids(self, args: list[Args]) -> AnyArray:
        lookup = cast(Callable[[object], int], self.arguments.__getitem__)
        join = b"\0".join
        indexes = [
            MISSING
            if a.dims is NOTHING and a.values is NOTHING
            else lookup(join((a.dims, a.dtypes, a.strides, a.values)))
            for a in args
        ]
        return np.array(indexes, dtype=np.int32)

    def _add_device(self, rows: list[Event], category: str) -> None:
        columns, args = self._shared(rows, category), [e.args or _NO_ARGS for e in rows]
        device = ids([a.device for a in args])
        stream = ids([a.stream for a in args])
        if (device == MISSING).any():
            pids = ids([e.pid if isinstance(e.pid, int) else MISSING for e in rows])
            device = np.where(device == MISSING, pids, device)
        if (stream == MISSING).any():
            stream = np.where(stream == MISSING, ids([e.tid for e in rows]), stream)
        pairs = zip([e.pid for e in rows], device.tolist(), strict=True)
        place = np.fromiter(map(self.places.__getitem__, pairs), np.int32, len(rows))
        filled = OCCUPANCY if category == "kernel" else ()
        self.device.add(
            device=place,
            stream=stream,
            correlation=ids([a.correlation for a in args]),
            num_bytes=ids([a.bytes for a in args]),
            **columns,
            **{key: numbers([getattr(a, key) for a in args], _DIVISORS[key]) for key in filled},
        )

    def _add_flows(self, rows: list[Event]) -> None:
        self.flows.add(
            start_ns=self._ns([e.ts for e in rows]),
            dur_ns=np.zeros(len(rows), dtype=np.int64),
            name=np.full(len(rows), self.names["fwdbwd"], dtype=np.int32),
            id=ids([e.id for e in rows]),
            thread=self._threads(rows),
            is_start=np.array([e.ph is EventKind.FLOW_START for e in rows], dtype=np.int8),
        )

    def _add_unnamed(self, rows: list[Event]) -> None:
        """Add events without `cat`: names of threads and allocator marks."""
        for event in rows:
            if event.ph is EventKind.METADATA and event.name == "thread_name" and event.args:
                thread = (plain_id(event.pid), plain_id(event.tid))
                self.thread_names[thread] = str(event.args.name)
        if self._options.memory:
            instants = (e for e in rows if e.ph is EventKind.INSTANT)
            if marks := [e for e in instants if e.name == "[memory]" and e.args]:
                self._add_memory(marks)

    def _add_memory(self, rows: list[Event]) -> None:
        args = [e.args or _NO_ARGS for e in rows]
        on_host = ids([a.memory_device_type for a in args]) == 0
        self.memory.add(
            start_ns=self._ns([e.ts for e in rows]),
            dur_ns=np.zeros(len(rows), dtype=np.int64),
            device=np.where(on_host, MISSING, ids([a.memory_device for a in args])),
            thread=self._threads(rows),
            changed_bytes=ids([a.changed for a in args]),
            allocated_bytes=ids([a.allocated for a in args]),
            reserved_bytes=ids([a.reserved for a in args]),
        )
