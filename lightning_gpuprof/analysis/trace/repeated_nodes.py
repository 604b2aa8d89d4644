"""Which nodes of the autograd graph ran more than once, by the arrows from their operators."""

import numpy as np

from lightning_gpuprof.analysis.trace.grouping import blocks, passing
from lightning_gpuprof.analysis.trace.nesting import Nesting
from lightning_gpuprof.arrays import Int64
from lightning_gpuprof.traces.timeline import Timeline

ENGINE = "autograd::engine::evaluate_function: "
ACCUMULATE = "AccumulateGrad"


def repeated_nodes(timeline: Timeline, nesting: Nesting) -> Int64:
    """Return the rows of host events that are the engine's calls of a node that ran before.

    torch draws one arrow from an operator to its node however often the node runs, so what no
    arrow reaches is another pass. Gradients' accumulation has no operator, and is left out.
    """
    host, flows = timeline.host, timeline.flows
    engine = passing(timeline, lambda name: name.startswith(ENGINE) and ACCUMULATE not in name)
    if not engine.any() or not len(flows):
        return np.zeros(0, dtype=np.int64)
    ends = flows.is_start == 0
    places = set(zip(flows.thread[ends].tolist(), flows.start_ns[ends].tolist(), strict=True))
    called: list[int] = []
    reached: set[int] = set()
    for block in blocks(len(host)):
        called.extend((block.start + np.flatnonzero(engine[host.name[block]])).tolist())
        # An arrow ends where the node begins, which the engine's call is the parent of.
        parent = nesting.parent[block]
        nodes = block.start + np.flatnonzero((parent >= 0) & engine[host.name[parent]])
        begun = zip(host.thread[nodes].tolist(), host.start_ns[nodes].tolist(), strict=True)
        calls = nesting.parent[nodes].tolist()
        reached.update(call for call, place in zip(calls, begun, strict=True) if place in places)
    return np.array([row for row in called if row not in reached], dtype=np.int64)
