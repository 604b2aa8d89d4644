"""Tells apart the ranks whose traces were joined into one file.

Each rank counts its correlation ids and its devices anew, so that those of a joined file mean
nothing without their rank. Tools that join traces leave a sign of the rank in the process id: they
put a label before it (`[TP02] 83`), set the rank in its place, or add an offset for each rank.
Without such a sign the file is refused: nobody could say which call launched which kernel.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from lightning_gpuprof.arrays import Int64
from lightning_gpuprof.errors import TraceError
from lightning_gpuprof.traces.timeline import (
    MISSING,
    DeviceEvents,
    Flows,
    HostEvents,
    Thread,
    of_category,
)

_Id = int | str
_RANK = r"\[?((?:[a-z]+[ _-]?\d+[-_/, ]?)+)\]?"
_BEFORE = re.compile(rf"\s*{_RANK}[\s:_/-]+\S", re.IGNORECASE)
_BEHIND = re.compile(
    r"\S+[\s:_/-]+[\[(]?((?:rank|[tdpec]p)[ _-]?\d+[^\])]*)[\])]?\s*$", re.IGNORECASE
)
_SHIFT = 40
"""A trace holds fewer than 2^40 launches: ids of different ranks differ from this bit on."""
REPEATED_FRAC = 0.1
"""A process gives each of its calls an id of its own: more repeated ids are of several ranks."""
_UNCLEAR = (
    "{what} have the same correlation ids: the file joins the traces of several ranks, and nothing "
    "in it says which of them launched what. Give each rank's own file."
)


@dataclass(frozen=True)
class Place:
    """A device as events name it: by their process id and the device's number."""

    pid: _Id
    device: int


@dataclass(frozen=True)
class Ranks:
    """Whose each thread and each device is, by the index of a rank in `labels`.

    `device` is the number of each place among the devices of all ranks.
    """

    labels: tuple[str, ...]
    of_thread: Int64
    of_place: Int64
    device: Int64


class RankDevice(NamedTuple):
    """A device with events: the number that its process gave it, and the rank of that process."""

    number: int
    rank: str | None = None


class Separated(NamedTuple):
    """Events whose correlation ids and devices are their own among all ranks of a file."""

    host: HostEvents
    device: DeviceEvents
    flows: Flows
    devices: dict[int, RankDevice]
    threads: list[Thread]


def separated(
    threads: Sequence[Thread],
    places: Sequence[Place],
    host: HostEvents,
    device: DeviceEvents,
    flows: Flows,
) -> Separated:
    """Number the devices of a file, whose device events refer to `places`, and tell ranks apart.

    Raises:
        TraceError: The file joins several ranks, and nothing says whose the devices are.
    """
    ranks, threads = find_ranks(threads, places, host), list(threads)
    number = np.array([place.device for place in places], dtype=np.int64).astype(np.int32)
    devices = {own: RankDevice(own) for own in number.tolist()}
    if ranks is not None:
        number = ranks.device.astype(np.int32)
        devices = {
            own: RankDevice(place.device, ranks.labels[rank] or None)
            for own, rank, place in zip(number.tolist(), ranks.of_place, places, strict=True)
        }
        host = replace(host, correlation=_apart(host.correlation, ranks.of_thread[host.thread]))
        flows = replace(flows, id=_apart(flows.id, ranks.of_thread[flows.thread]))
        launched = _apart(device.correlation, ranks.of_place[device.device])
        device = replace(device, correlation=launched)
        threads = [
            replace(thread, rank=ranks.labels[rank] or None)
            for thread, rank in zip(threads, ranks.of_thread, strict=True)
        ]
    return Separated(host, replace(device, device=number[device.device]), flows, devices, threads)


def label_of(pid: _Id) -> str | None:
    """Return the rank that a tool put before or behind a process id; None if it put none.

    >>> label_of("[TP02-DP01] 83"), label_of("rank 3: 4711"), label_of("4711 (rank 3)")
    ('TP02-DP01', 'rank 3', 'rank 3')
    >>> label_of("Spans"), label_of("GPU 0"), label_of(83)
    (None, None, None)
    """
    if not isinstance(pid, str):
        return None
    match = _BEFORE.match(pid) or _BEHIND.match(pid)
    return match[1].rstrip("-_/, ") if match else None


def find_ranks(
    threads: Sequence[Thread], places: Sequence[Place], host: HostEvents
) -> Ranks | None:
    """Return the ranks of a file that was joined from several; None for a single process's file.

    Args:
        threads: The threads of `host`.
        places: The devices that have events.
        host: Host events, with the launching calls.

    Raises:
        TraceError: Processes use the same correlation ids, and nothing says whose the devices are.
    """
    labels = {pid: label_of(pid) for pid in (*_pids(threads), *_pids(places))}
    if len({label for label in labels.values() if label}) > 1:
        return _by(labels, threads, places)
    callers = _callers(threads, host, "cuda_runtime", "cuda_driver")
    # A call of the runtime and the call of the driver in it may have the same id.
    if any(map(_repeats, _callers(threads, host, "cuda_runtime").values())):
        raise TraceError(_UNCLEAR.format(what="The calls of one process"))
    if len(callers) < 2 and _distinct_devices(places):
        return None
    if len(callers) > 1 and places and {place.pid for place in places} <= callers.keys():
        return _by({pid: f"rank {pid}" for pid in labels}, threads, places)
    if _share_ids(callers):
        names = ", ".join(map(str, sorted(callers, key=str)[:4]))
        raise TraceError(_UNCLEAR.format(what=f"Calls of the processes {names}"))
    return None if _distinct_devices(places) else _by(dict.fromkeys(labels), threads, places)


def _apart(ids: Int64, of_row: Int64) -> Int64:
    """Return ids that differ between ranks, `of_row` being the rank of each event."""
    differing: Int64 = np.where(ids == MISSING, ids, ids + (of_row << _SHIFT))
    return differing


def _pids(rows: Sequence[Thread] | Sequence[Place]) -> list[_Id]:
    return [row.pid for row in rows]


def _by(
    labels: Mapping[_Id, str | None], threads: Sequence[Thread], places: Sequence[Place]
) -> Ranks:
    """Group threads and places by the label of their process; those without one are a group."""
    ordered = sorted({labels[pid] or "" for pid in (*_pids(threads), *_pids(places))}, key=_natural)
    number = {label: index for index, label in enumerate(ordered)}
    of_thread = [number[labels[thread.pid] or ""] for thread in threads]
    of_place = [number[labels[place.pid] or ""] for place in places]
    # Places of one rank with one number are one device, if nothing but a label tells them apart.
    keys = [
        (rank, _natural("" if labels[place.pid] else str(place.pid)), place.device)
        for rank, place in zip(of_place, places, strict=True)
    ]
    device = {key: index for index, key in enumerate(sorted(set(keys)))}
    return Ranks(
        tuple(ordered),
        np.array(of_thread, dtype=np.int64),
        np.array(of_place, dtype=np.int64),
        np.array([device[key] for key in keys], dtype=np.int64),
    )


def _natural(label: str) -> tuple[tuple[int, str], ...]:
    """Return a key that sorts numbers in labels by value: rank 10 comes after rank 9."""
    parts = re.split(r"(\d+)", label)
    return tuple((int(part) if part.isdecimal() else 0, part) for part in parts)


def _callers(threads: Sequence[Thread], host: HostEvents, *categories: str) -> dict[_Id, Int64]:
    """Return the correlation ids of each process's calls of some categories."""
    numbers: dict[_Id, int] = {}
    of_thread = np.array([numbers.setdefault(thread.pid, len(numbers)) for thread in threads])
    calls = of_category(host, *categories) & (host.correlation > 0)
    caller, ids = of_thread[host.thread[calls]], host.correlation[calls]
    own = {pid: ids[caller == number] for pid, number in numbers.items()}
    return {pid: of_pid for pid, of_pid in own.items() if len(of_pid)}


def _distinct_devices(places: Sequence[Place]) -> bool:
    """Return whether no device's number occurs in several processes."""
    return len({place.device for place in places}) == len(set(places))


def _repeats(ids: Int64) -> bool:
    """Return whether many of a process's calls share their id with another one."""
    ordered = np.sort(ids)
    return int((ordered[1:] == ordered[:-1]).sum()) > REPEATED_FRAC * len(ids)


def _share_ids(callers: Mapping[_Id, Int64]) -> bool:
    """Return whether any correlation id is used by several processes."""
    together = [np.array(sorted(set(ids.tolist())), dtype=np.int64) for ids in callers.values()]
    if len(together) < 2:
        return False
    ordered = np.sort(np.concatenate(together))
    return bool((ordered[1:] == ordered[:-1]).any())
