"""The mesh of a run's ranks: which ranks exchange with which, along which axis."""

from collections.abc import Iterable, Mapping, Sequence

from lightning_gpuprof.records.reader import Session
from lightning_gpuprof.records.schema import RunStart

SAME_BATCH = ("tensor", "pipeline")
"""Axes along which ranks work on the same batch, so that they are late together."""


def axes_of(sessions: Iterable[Session]) -> list[str]:
    """Return the axes of the mesh along which there are several ranks; empty without a mesh."""
    places = [session.start.mesh for session in sessions]
    axes = dict.fromkeys(axis for place in places for axis in place)
    return [axis for axis in axes if len({place.get(axis) for place in places}) > 1]


def group_name(ranks: Sequence[int], starts: Mapping[int, RunStart]) -> str | None:
    """Return the name of a group that consists of exactly these ranks; None if they are no group.

    A group consists of the ranks that work on the same batch, or of all ranks of a host.
    """
    by_batch = {rank: _without(start.mesh, SAME_BATCH) for rank, start in starts.items()}
    axes = [axis for axis in SAME_BATCH if any(axis in start.mesh for start in starts.values())]
    if axes and _are_all_at(ranks, by_batch):
        return f"the {axes[0]}-parallel group at {_place(by_batch[ranks[0]])}"
    hosts = {rank: start.host for rank, start in starts.items()}
    if len(set(hosts.values())) > 1 and _are_all_at(ranks, hosts):
        return f"host {hosts[ranks[0]]}"
    return None


def _without(place: Mapping[str, int], axes: Iterable[str]) -> dict[str, int]:
    return {axis: at for axis, at in place.items() if axis not in axes}


def _are_all_at(ranks: Sequence[int], at: Mapping[int, object]) -> bool:
    """Return whether these are several ranks, and exactly those at one place.

    >>> _are_all_at((0, 1), {0: "a", 1: "a", 2: "b"}), _are_all_at((0,), {0: "a", 1: "a"})
    (True, False)
    """
    here = [rank for rank, place in at.items() if place == at[ranks[0]]]
    return len(ranks) > 1 and sorted(ranks) == sorted(here)


def _place(place: Mapping[str, int]) -> str:
    return ", ".join(f"{axis} {at}" for axis, at in place.items()) or "this place"
