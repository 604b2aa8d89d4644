"""Finds the lines that fill a device's memory, from a snapshot of torch's allocator.

A storage is followed from its `alloc` to its `free_completed` by its address. Its kind comes from
the addresses that the run named (parameters, gradients, optimizer state), else from the phase
it was allocated in and its lifetime. The phase is the note that the run left with the allocation.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from lightning_gpuprof.traces.memory_snapshot import (
    AllocatorDump,
    AllocatorEvent,
    Frame,
    user_frame,
)

KINDS = ("parameters", "gradients", "optimizer_state", "activations", "other")
FORWARD, BACKWARD, OPTIMIZER = "forward", "backward", "optimizer_step"
TOP_SITES = 10
_QUARTERS = 4


@dataclass(frozen=True)
class Site:
    """A line that allocated memory; None where no Python stack was recorded."""

    frame: Frame | None
    num_bytes: int
    count: int
    bytes_per_step: int | None = None
    """Of a growing line; None where steps cannot be told apart."""


@dataclass(frozen=True)
class SnapshotAnalysis:
    """One device's memory in a snapshot. Bytes are as requested, but for `reserved_bytes`."""

    device: int
    reserved_bytes: int
    allocated_bytes: int
    peak_bytes: int
    peak_time_us: int | None
    peak_kind_bytes: dict[str, int]
    peak_sites: tuple[Site, ...]
    kind_bytes: dict[str, int]
    """At the end."""
    growing: tuple[Site, ...]
    """Lines whose allocations of every part of the history are still alive."""
    steps: int | None
    """Training steps that began within the history; None where they cannot be told apart."""
    ooms: int
    before_bytes: int
    """Allocated at the beginning of the history."""


@dataclass
class _Life:
    """A block from `start` to `end`, as indexes of events; -1 is before the history, None never."""

    address: int | None
    num_bytes: int
    start: int
    frames: tuple[Frame, ...]
    end: int | None = None
    kind: str = "other"


def analyze_snapshot(
    snapshot: AllocatorDump, device: int, *, kinds: Mapping[str, Iterable[int]] | None = None
) -> SnapshotAnalysis:
    """Find what filled one device's memory; `kinds` are addresses alive at the end, by kind."""
    events = [event for event in snapshot.events if event.device == device]
    lives = _lives(snapshot, device, events)
    phases = _phases(events)
    _classify(lives, phases, kinds or {})
    totals = _totals(lives, len(events))
    peak = max(range(len(totals)), key=totals.__getitem__)
    begun = [life for life in lives if life.start < peak]
    at_peak = [life for life in begun if life.end is None or life.end >= peak]
    return SnapshotAnalysis(
        device=device,
        reserved_bytes=snapshot.reserved_bytes(device),
        allocated_bytes=totals[-1],
        peak_bytes=totals[peak],
        peak_time_us=events[peak - 1].time_us if peak else None,
        peak_kind_bytes=_by_kind(at_peak),
        peak_sites=tuple(_sites(at_peak)[:TOP_SITES]),
        kind_bytes=_by_kind(life for life in lives if life.end is None),
        growing=tuple(_growing(lives, phases)[:TOP_SITES]),
        steps=len(_step_begins(phases)) or None,
        ooms=sum(event.action == "oom" for event in events),
        before_bytes=totals[0],
    )


def _lives(snapshot: AllocatorDump, device: int, events: Sequence[AllocatorEvent]) -> list[_Life]:
    lives: list[_Life] = []
    live: dict[int, _Life] = {}
    for index, event in enumerate(events):
        if event.address is None:
            continue
        if event.action == "alloc":
            life = _Life(event.address, event.num_bytes, index, event.frames)
            live[event.address] = life
            lives.append(life)
        elif event.action == "free_completed":
            if event.address not in live:
                live[event.address] = _Life(event.address, event.num_bytes, -1, event.frames)
                lives.append(live[event.address])
            live.pop(event.address).end = index
    for segment in snapshot.segments:
        for block in segment.blocks if segment.device == device else ():
            if block.state == "active_allocated" and block.address not in live:
                size = block.requested_bytes or block.num_bytes
                lives.append(_Life(block.address, size, -1, block.frames))
    return lives


def _phases(events: Sequence[AllocatorEvent]) -> list[str]:
    """Return each event's phase: the last note that the run left, "" before the first."""
    phases = [""]
    for event in events:
        phases.append(event.note or phases[-1])
    return phases[1:]


def _classify(
    lives: Iterable[_Life], phases: Sequence[str], kinds: Mapping[str, Iterable[int]]
) -> None:
    known = {address: kind for kind, addresses in kinds.items() for address in addresses}
    next_other = _next_other_phase(phases)
    last_step = max(_step_begins(phases), default=0)
    for life in lives:
        if life.end is None and life.address in known:
            life.kind = known[life.address]
            continue
        born = phases[life.start] if life.start >= 0 else ""
        if born not in (FORWARD, BACKWARD, OPTIMIZER):
            continue
        left = next_other[life.start]
        outlived = left is not None and (life.end is None or life.end > left)
        # Memory that a step leaves for good is a workspace of cuBLAS, a cache or a leak.
        stays = life.end is None and life.start < last_step
        if born == FORWARD and outlived and not stays:
            life.kind = "activations"
        elif born == BACKWARD and outlived and not (stays and known):
            life.kind = "gradients"
        elif born == OPTIMIZER and outlived and life.end is None:
            life.kind = "optimizer_state"


def _next_other_phase(phases: Sequence[str]) -> list[int | None]:
    """Return for each event the first later event of another phase."""
    following: list[int | None] = [None] * len(phases)
    for index in range(len(phases) - 2, -1, -1):
        same = phases[index] == phases[index + 1]
        following[index] = following[index + 1] if same else index + 1
    return following


def _totals(lives: Iterable[_Life], count: int) -> list[int]:
    """Return bytes in use before the first event and after each: `count + 1` values."""
    change = [0] * (count + 1)
    for life in lives:
        change[life.start + 1] += life.num_bytes
        if life.end is not None:
            change[life.end + 1] -= life.num_bytes
    return list(accumulate(change))


def _by_kind(lives: Iterable[_Life]) -> dict[str, int]:
    sums = dict.fromkeys(KINDS, 0)
    for life in lives:
        sums[life.kind] = sums.get(life.kind, 0) + life.num_bytes
    return sums


def _sites(lives: Iterable[_Life]) -> list[Site]:
    sums: dict[Frame | None, list[int]] = defaultdict(lambda: [0, 0])
    for life in lives:
        entry = sums[user_frame(life.frames)]
        entry[0] += life.num_bytes
        entry[1] += 1
    sites = [Site(frame, size, count) for frame, (size, count) in sums.items()]
    return sorted(sites, key=lambda site: -site.num_bytes)


def _step_begins(phases: Sequence[str]) -> list[int]:
    """Return the events at which a step's forward pass begins."""
    return [
        index
        for index, phase in enumerate(phases)
        if phase == FORWARD and (index == 0 or phases[index - 1] != FORWARD)
    ]


def _growing(lives: Sequence[_Life], phases: Sequence[str]) -> list[Site]:
    """Find lines that left something alive in each quarter of the history.

    Memory left by the last quarter alone is a step under way; by the first alone, state.
    """
    survivors: dict[Frame | None, list[_Life]] = defaultdict(list)
    for life in lives:
        if life.end is None and life.start >= 0 and life.kind in ("activations", "other"):
            survivors[user_frame(life.frames)].append(life)
    steps = len(_step_begins(phases))
    growing = []
    for frame, left in survivors.items():
        quarters = {life.start * _QUARTERS // len(phases) for life in left}
        if frame is not None and len(quarters) == _QUARTERS:
            size = sum(life.num_bytes for life in left)
            growing.append(Site(frame, size, len(left), size // steps if steps else None))
    return sorted(growing, key=lambda site: -site.num_bytes)
