"""The autograd graph's nodes in a trace, and what running them again costs a step."""

import re
from dataclasses import dataclass

from lightning_gpuprof.analysis.run.trace_facts import Operator, TraceFacts
from lightning_gpuprof.analysis.trace.operators import ACCUMULATE, ENGINE

_NODE = re.compile(re.escape(ENGINE) + r"(\w+?)Backward\d*$")
_SECOND_ORDER = re.compile(r"Backward\d*Backward")


@dataclass(frozen=True)
class GraphPasses:
    """Calls of nodes per step whose operator is known, and those that had run before."""

    calls: float
    repeated_calls: float
    repeated_ns: float
    """Host time of the repeated calls."""
    most_passes: float
    """How often a node may have run: those of its class were repeated one less often."""

    @property
    def repeated_frac(self) -> float:
        """Share of all calls."""
        return self.repeated_calls / self.calls if self.calls else 0.0

    @property
    def mean_passes(self) -> float:
        """How often a node runs on average."""
        return 1 / max(1 - self.repeated_frac, 1 / max(1.0, self.calls))


def graph_nodes(facts: TraceFacts) -> list[Operator]:
    """Return the graph's nodes by class, without its ends, where gradients are added up."""
    every = facts.operators.items()
    return [op for name, op in every if name.startswith(ENGINE) and ACCUMULATE not in name]


def second_order(facts: TraceFacts) -> bool:
    """Tell whether gradients are differentiated again: nodes of nodes run."""
    return any(_SECOND_ORDER.search(name) for name in facts.operators)


def graph_passes(facts: TraceFacts) -> GraphPasses:
    """Count calls of nodes against calls of the operators that made them, in place or not.

    `AddmmBackward0` is made by `aten::addmm`. Where the trace has arrows from operators to nodes,
    they say which calls are repeated.
    """
    operators, calls, repeated, repeated_ns, most = facts.operators, 0.0, 0.0, 0.0, 0.0
    nodes = graph_nodes(facts)
    arrows = any(node.repeated_calls for node in nodes)
    for node in nodes:
        match = _NODE.match(node.name)
        maker = f"aten::{operator_name(match[1])}" if match else ""
        makers = [operators[one] for one in (maker, f"{maker}_") if one in operators]
        if not makers:
            continue
        again = max(0.0, node.calls - sum(one.calls for one in makers))
        each_ns = node.total_ns / node.calls
        if arrows:  # a node without an arrow may be of an operator before the trace began
            again = min(again, node.repeated_calls)
            each_ns = node.repeated_ns / node.repeated_calls if again else 0.0
        calls += node.calls
        repeated += again
        repeated_ns += again * each_ns
        most = max(most, again)
    return GraphPasses(calls, repeated, repeated_ns, most + 1)


def operator_name(node: str) -> str:
    """Return an operator's name from its node's.

    >>> operator_name("NativeLayerNorm"), operator_name("Addmm")
    ('native_layer_norm', 'addmm')
    """
    return re.sub(r"(?<!^)(?=[A-Z])", "_", node).lower()
