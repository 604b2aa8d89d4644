"""The nodes of the autograd graph in a trace, and the cost of running them repeatedly in a step."""

import re
from dataclasses import dataclass

from lightning_gpuprof.analysis.run.trace_facts import Operator, TraceFacts
from lightning_gpuprof.analysis.trace.operators import ACCUMULATE, ENGINE

_NODE = re.compile(re.escape(ENGINE) + r"(\w+?)Backward\d*$")
_SECOND_ORDER = re.compile(r"Backward\d*Backward")


@dataclass(frozen=True)
class GraphPasses:
    """Calls of nodes per step, and how many of them repeat an earlier call.

    Only nodes whose operator is known are counted.
    """

    calls: float
    repeated_calls: float
    repeated_ns: float
    """Host time of the repeated calls."""
    most_passes: float
    """The most times that a node may have run: once more than nodes of its class were repeated."""

    @property
    def repeated_frac(self) -> float:
        """Share of the calls that repeat an earlier call."""
        return self.repeated_calls / self.calls if self.calls else 0.0

    @property
    def mean_passes(self) -> float:
        """How often a node runs on average."""
        return 1 / max(1 - self.repeated_frac, 1 / max(1.0, self.calls))


def graph_nodes(facts: TraceFacts) -> list[Operator]:
    """Return the graph's nodes by class, without the nodes that accumulate gradients."""
    return [
        op
        for name, op in facts.operators.items()
        if name.startswith(ENGINE) and ACCUMULATE not in name
    ]


def second_order(facts: TraceFacts) -> bool:
    """Return whether gradients are differentiated again, so that nodes of nodes run."""
    return any(_SECOND_ORDER.search(name) for name in facts.operators)


def graph_passes(facts: TraceFacts) -> GraphPasses:
    """Compare the calls of nodes with the calls of the operators that created them.

    `AddmmBackward0` is created by `aten::addmm` or its in-place variant. If the trace has arrows
    from operators to nodes, these show which calls are repeated.
    """
    operators, calls, repeated, repeated_ns, most = facts.operators, 0.0, 0.0, 0.0, 0.0
    nodes = graph_nodes(facts)
    arrows = any(node.repeated_calls for node in nodes)
    for node in nodes:
        match = _NODE.match(node.name)
        creator = f"aten::{operator_name(match[1])}" if match else ""
        creators = [operators[name] for name in (creator, f"{creator}_") if name in operators]
        if not creators:
            continue
        repeats = max(0.0, node.calls - sum(op.calls for op in creators))
        call_ns = node.total_ns / node.calls
        if arrows:  # the operator of a node without an arrow may have run before the trace began
            repeats = min(repeats, node.repeated_calls)
            call_ns = node.repeated_ns / node.repeated_calls if repeats else 0.0
        calls += node.calls
        repeated += repeats
        repeated_ns += repeats * call_ns
        most = max(most, repeats)
    return GraphPasses(calls, repeated, repeated_ns, most + 1)


def operator_name(node: str) -> str:
    """Return the name of the operator that creates nodes of a class.

    >>> operator_name("NativeLayerNorm"), operator_name("Addmm")
    ('native_layer_norm', 'addmm')
    """
    return re.sub(r"(?<!^)(?=[A-Z])", "_", node).lower()
