"""Which nodes of the autograd graph ran more than once, by the arrows from their operators."""

import numpy as np

from lightning_gpuprof.analysis.trace.nesting import Nesting
from lightning_gpuprof.traces.timeline import Int64, Timeline

ENGINE = "autograd::engine::evaluate_function: "
ACCUMULATE = "AccumulateGrad"


def repeated_nodes(timeline: Timeline, nesting: Nesting) -> Int64:
    """Return the rows of host events that are the engine's calls of a node that ran before.

    torch draws one arrow from an operator to its node however often the node runs, so what no
    arrow reaches is another pass. Gradients' accumulation has no operator, and is left out.
    """
    host, flows = timeline.host, timeline.flows
    engine = np.array(
        [name.startswith(ENGINE) and ACCUMULATE not in name for name in timeline.names] or [False]
    )
    called = engine[host.name]
    if not called.any() or not len(flows):
        return np.zeros(0, dtype=np.int64)
    # An arrow ends where the node begins, which the engine's call is the parent of.
    nodes = np.flatnonzero((nesting.parent >= 0) & called[nesting.parent])
    ends = flows.is_start == 0
    places = set(zip(flows.thread[ends].tolist(), flows.start_ns[ends].tolist(), strict=True))
    begun = zip(host.thread[nodes].tolist(), host.start_ns[nodes].tolist(), strict=True)
    reached = nodes[[place in places for place in begun]]
    fresh = np.zeros(len(host), dtype=np.bool_)
    fresh[nesting.parent[reached]] = True
    return np.flatnonzero(called & ~fresh)
