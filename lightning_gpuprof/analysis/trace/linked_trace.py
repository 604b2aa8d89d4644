"""A trace together with how its events belong to each other, which most analyses go by."""

from msgspec import Struct

from lightning_gpuprof.analysis.trace.launch_join import Launches, join_launches
from lightning_gpuprof.analysis.trace.nesting import Nesting, nest
from lightning_gpuprof.traces.timeline import Timeline


class LinkedTrace(Struct, frozen=True):
    """A trace, who calls whom on its host, and which call launched what on its devices."""

    timeline: Timeline
    nesting: Nesting
    launches: Launches


def link(timeline: Timeline, launches: Launches | None = None) -> LinkedTrace:
    """Find how a trace's events belong to each other, but for launches that are joined already."""
    return LinkedTrace(timeline, nest(timeline.host), launches or join_launches(timeline))
