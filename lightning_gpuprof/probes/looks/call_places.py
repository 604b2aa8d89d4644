"""Places in the program as they are written down."""

import linecache
from collections.abc import Iterable
from itertools import islice

from lightning_gpuprof.probes.stacks.stack_lines import Place, shown_path
from lightning_gpuprof.records.module_calls import MOST_PLACES, CallPlace


def shown(place: Place) -> CallPlace:
    """Return a place with its path as a user would write it, and its text."""
    file, line, function = place
    return CallPlace(shown_path(file), line, function, linecache.getline(file, line).strip())


def first_shown(places: Iterable[Place]) -> tuple[CallPlace, ...]:
    """Return the first `MOST_PLACES` of several."""
    return tuple(map(shown, islice(places, MOST_PLACES)))
