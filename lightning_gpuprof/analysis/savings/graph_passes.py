"""What passing through the same autograd graph again costs a step."""

from dataclasses import dataclass

from lightning_gpuprof.analysis.run.trace_facts import TraceFacts
from lightning_gpuprof.analysis.savings.graph_nodes import engine_calls, graph_nodes, nodes_ns
from lightning_gpuprof.analysis.trace.operators import ACCUMULATE

FIRST_GRADIENT = "aten::ones_like"
"""`backward()` of a scalar makes its first gradient so: no more passes than calls of it."""


@dataclass(frozen=True)
class GraphPasses:
    """Passes of a step through nodes that had run before, per step."""

    calls: float
    """All calls of nodes that are known to have an operator."""
    repeated_calls: float
    repeated_ns: float
    """Host time of those calls, and of adding their gradients to those that were there."""
    extra_passes: float
    """Calls of `backward` that went through any such node."""
    nodes_ns: float
    """Host time of all nodes: what the backward pass takes beyond it lies between them."""
    mean_passes: float

    @property
    def repeated_frac(self) -> float:
        """Share of all calls."""
        return self.repeated_calls / self.calls if self.calls else 0.0

    def cost_ns(self, backward_ns: int, *, scale: float = 1.0) -> int:
        """Return what the repeated passes take of a backward phase.

        Beside its nodes each pass takes its share of what is left: the call of `backward` and the
        start of the engine. `scale` is by how much the nodes' time in the trace may be too short
        (`host_work.unscaled_frac`).
        """
        around_ns = max(0.0, backward_ns - self.nodes_ns * scale)
        share = self.extra_passes / (self.extra_passes + 1)
        return min(backward_ns, round(self.repeated_ns + share * around_ns))


def graph_passes(facts: TraceFacts, parameters: int | None) -> GraphPasses:
    """Count the passes; `parameters` are the model's tensors, None where that is unknown.

    Of a trace without arrows from operators to nodes a class's repeated calls are taken to last
    as long as its others.
    """
    calls = repeated = repeated_ns = made = most = 0.0
    nodes = graph_nodes(facts)
    arrows = any(one.node.repeated_calls for one in nodes)
    for one in nodes:
        if one.forward is None:
            continue
        node = one.node
        again = max(0.0, node.calls - one.forward_calls)
        each_ns = node.total_ns / node.calls
        if arrows:
            # No arrow either: a node whose operator ran before the trace began.
            again = min(again, node.repeated_calls)
            each_ns = node.repeated_ns / node.repeated_calls if again else 0.0
        calls += node.calls
        made += min(node.calls, one.forward_calls)
        repeated += again
        repeated_ns += again * each_ns
        most = max(most, again)
    first = facts.operators.get(FIRST_GRADIENT)
    return GraphPasses(
        calls=calls,
        repeated_calls=repeated,
        repeated_ns=repeated_ns + (_added_again_ns(facts, parameters) if repeated else 0.0),
        extra_passes=most if first is None else min(most, max(0.0, first.calls - 1)),
        nodes_ns=nodes_ns(facts),
        mean_passes=calls / made if made else 1.0,
    )


def _added_again_ns(facts: TraceFacts, parameters: int | None) -> float:
    """Return the time of adding gradients to parameters that had one from an earlier pass."""
    found = [op for op in engine_calls(facts) if op.name.endswith(ACCUMULATE) and op.calls]
    if parameters is None:
        return 0.0
    return sum(op.total_ns * max(0.0, 1 - parameters / op.calls) for op in found)
