"""Which host events are an optimizer's update of the weights."""

import numpy as np

from lightning_gpuprof.analysis.trace.grouping import named
from lightning_gpuprof.analysis.trace.nesting import Nesting
from lightning_gpuprof.analysis.trace.repeated_nodes import ENGINE
from lightning_gpuprof.arrays import Mask
from lightning_gpuprof.traces.timeline import Timeline

STEP = "Optimizer.step"
"""How torch names the region around an optimizer's step."""


def in_updates(timeline: Timeline, nesting: Nesting, in_step: Mask) -> Mask:
    """Return which host events of an optimizer's step come after the backward pass inside it.

    Lightning hands forward and backward to the optimizer as a closure: these are no update.
    """
    host = timeline.host
    rows = np.flatnonzero(named(timeline, lambda name: name.startswith(STEP)))
    if not len(rows):
        return in_step
    rows = rows[np.argsort(host.start_ns[rows], kind="stable")]
    nodes = np.flatnonzero(named(timeline, lambda name: name.startswith(ENGINE)))
    first, begins = host.start_ns[rows], host.start_ns[rows].copy()
    if len(nodes):
        within = np.searchsorted(first, host.start_ns[nodes], side="right") - 1
        ended = nesting.end_ns[nodes]
        last = nesting.end_ns[rows]
        inside = (within >= 0) & (ended <= last[within])
        np.maximum.at(begins, within[inside], ended[inside])
    found: Mask = in_step.copy()
    events = np.flatnonzero(found)
    step = np.searchsorted(first, host.start_ns[events], side="right") - 1
    found[events] = host.start_ns[events] >= begins[step]
    return found
