"""Tells whether a backward pass freed the graph it went through, and whether the graph lives on."""

import weakref
from collections import deque
from collections.abc import Iterator
from typing import Any

MAX_NODES = 50
MAX_MARKED = 200
_KEY = "lightning_gpuprof"
_RAW = "_raw_saved_"
_STACK = "traceback_"


def graph_is_kept(node: Any) -> bool | None:
    """Tell, after backward, whether the graph still holds what it saved.

    Backward frees each node's saved tensors, unless it ran with `retain_graph=True`; a freed node
    refuses to show them. One tensor is looked at; nothing is copied, unless hooks of the user's
    own (`saved_tensors_hooks`) do so where they unpack it.

    Args:
        node: The loss's `grad_fn`, fetched before backward.

    Returns:
        None where none of the first `MAX_NODES` nodes saves a tensor.
    """
    for one in _first_nodes(node):
        for name in dir(one):
            if name.startswith(_RAW):
                shown = _shows(one, name.replace(_RAW, "_saved_", 1))
                if shown is not None:
                    return shown
    return None


def holds_stacks(node: Any) -> bool:
    """Tell whether nodes of a graph hold the stack that made them, as anomaly detection notes it.

    Lightning divides the loss outside of the module's code, so more than one node is asked.

    Args:
        node: The loss's `grad_fn`.
    """
    return any(_STACK in one.metadata for one in _first_nodes(node))


class GraphMark:
    """Lives as long as a part of a graph does: each node holds it in its metadata.

    Whoever keeps a tensor keeps all nodes that led to it, so nodes are marked from the loss
    downwards until the inputs or `MAX_MARKED`. Nodes that a parameter or DDP keeps are left out.
    """

    @classmethod
    def put(cls, node: Any) -> "weakref.ref[GraphMark]":
        """Mark a graph, given the loss's `grad_fn`; the reference dies with the graph."""
        mark = cls()
        queue, seen = deque([node]), {node}
        while queue and len(seen) <= MAX_MARKED:
            node = queue.popleft()
            node.metadata[_KEY] = mark
            for following, _ in node.next_functions:
                if following is None or following in seen or "AccumulateGrad" in following.name():
                    continue
                seen.add(following)
                queue.append(following)
        return weakref.ref(mark)


def _first_nodes(node: Any) -> Iterator[Any]:
    """Yield the nodes of a graph from the loss downwards, about `MAX_NODES` at most."""
    queue, seen = deque([node]), {node}
    while queue and len(seen) <= MAX_NODES:
        node = queue.popleft()
        yield node
        for following, _ in node.next_functions:
            if following is not None and following not in seen:
                seen.add(following)
                queue.append(following)


def _shows(node: Any, name: str) -> bool | None:
    """Tell whether a node shows a tensor; None for one that was never there (`pos_weight=None`)."""
    try:
        saved = getattr(node, name)
    except RuntimeError:
        return False
    several = saved if isinstance(saved, (list, tuple)) else (saved,)
    return True if any(one is not None for one in several) else None
