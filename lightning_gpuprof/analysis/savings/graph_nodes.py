"""The autograd graph's nodes in a trace, each with the operator that made it."""

import re
from dataclasses import dataclass

from lightning_gpuprof.analysis.run.trace_facts import Operator, TraceFacts
from lightning_gpuprof.analysis.trace.operators import ACCUMULATE, ENGINE

_NODE = re.compile(re.escape(ENGINE) + r"(\w+?)Backward\d*$")
_SECOND_ORDER = re.compile(r"Backward\d*Backward")


@dataclass(frozen=True)
class GraphNode:
    """One class of nodes, by its calls per step in the backward pass.

    A class is named after its operator: `AddmmBackward0` after `aten::addmm`. `forward` is None
    where the trace has no operator of that name. `forward_calls` counts those in place too
    (`aten::sigmoid_` inside an LSTM makes a node like any other), an optimizer's among them.
    """

    node: Operator
    forward: Operator | None
    forward_calls: float = 0.0


def graph_nodes(facts: TraceFacts) -> list[GraphNode]:
    """Return every class of nodes but the graph's ends, where gradients are added up."""
    operators = facts.operators
    found = []
    for op in engine_calls(facts):
        name = op.name
        if ACCUMULATE in name or not op.calls:
            continue
        match = _NODE.match(name)
        maker = f"aten::{operator_name(match[1])}" if match else ""
        makers = [operators[one] for one in (maker, f"{maker}_") if one in operators]
        calls = sum(one.calls for one in makers)
        found.append(GraphNode(op, makers[0] if makers else None, calls))
    return found


def engine_calls(facts: TraceFacts) -> list[Operator]:
    """Return every class of nodes as the engine calls them, the graph's ends included."""
    return [op for name, op in facts.operators.items() if name.startswith(ENGINE)]


def nodes_ns(facts: TraceFacts) -> float:
    """Return the host time per step of the autograd graph's nodes and all that they call."""
    return sum(op.total_ns for op in engine_calls(facts))


def second_order(facts: TraceFacts) -> bool:
    """Tell whether gradients are differentiated in turn: nodes of nodes' nodes run."""
    return any(_SECOND_ORDER.search(name) for name in facts.operators)


def operator_name(node: str) -> str:
    """Return an operator's name from its node's.

    >>> operator_name("NativeLayerNorm"), operator_name("Addmm")
    ('native_layer_norm', 'addmm')
    """
    return re.sub(r"(?<!^)(?=[A-Z])", "_", node).lower()
