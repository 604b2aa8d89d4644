"""Tells whether a backward pass freed its graph, whether that lives on, and what it begins with."""

import math
import weakref
from collections import deque
from collections.abc import Iterator
from typing import Any

MAX_NODES = 50
MAX_MARKED = 200
MAX_PATH = 100
MAX_OF_WEIGHT, MAX_DEPTH_OF_WEIGHT = 8, 4
"""Nodes that make a weight of parameters, as weight_norm does or a cast to another type."""
_KEY = "lightning_gpuprof"
_RAW = "_raw_saved_"
_HOOK = "unpack_hook"
_STACK = "traceback_"
_JOINS = "Cat"
_SCALES = ("AddB", "SubB", "MulB", "DivB")
"""Of these names what has no gradient is a number, as a rule."""
_LEAF = "torch::autograd::AccumulateGrad"


def graph_is_kept(node: Any) -> bool | None:
    """Tell, after backward, whether the graph still holds what it saved.

    Backward frees each node's saved tensors, unless it ran with `retain_graph=True`; a freed node
    refuses to show them. One tensor is looked at; nothing is copied. Hooks that unpack what was
    saved are not called: a checkpoint's would compute its forward pass again. That they are there
    yet says enough.

    Args:
        node: The loss's `grad_fn`, fetched before backward.

    Returns:
        None where none of the first `MAX_NODES` nodes saves a tensor, or where torch is too old to
        tell of hooks.
    """
    for one in _first_nodes(node):
        for name in dir(one):
            if name.startswith(_RAW):
                shown = _shows(one, name.removeprefix(_RAW))
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


def first_result(node: Any) -> int:
    """Return how many numbers the first operator on the way to a loss made.

    What a model computes with gets larger where batches, or what is taken of them, do: its first
    result then does, too. What is joined with others later, such as rows kept from earlier steps,
    is not in it. Of an operator's inputs the first is followed back that is not made of parameters
    alone, and where parts are joined (`torch.cat`) the largest.

    Args:
        node: The loss's `grad_fn`.
    """
    path, untried = [node], [_inputs(node)]
    for _ in range(MAX_PATH):
        following = next(untried[-1], None)
        if following is not None:
            path.append(following)
            untried.append(_inputs(following))
            continue
        near = range(max(1, len(path) - MAX_DEPTH_OF_WEIGHT), len(path))
        weight = next((at for at in near if _is_weight(path[at])), None)
        if weight is None:
            break
        del path[weight:], untried[weight:]
    return _numbers(path[-1])


def _inputs(node: Any) -> Iterator[Any]:
    """Return the nodes that made what a node was given, the likely path first; no parameters."""
    found = (one for one, _ in node.next_functions if one is not None and one.next_functions)
    if node.name().startswith(_JOINS):
        return iter(sorted(found, key=_numbers, reverse=True))
    return found


def _is_weight(node: Any) -> bool:
    """Tell whether a node makes as many numbers as one of the parameters that it is of."""
    nodes, sizes = [node], set()
    for _ in range(MAX_OF_WEIGHT):
        one = nodes.pop()
        inputs = [following for following, _ in one.next_functions]
        if None in inputs and not one.name().startswith(_SCALES):
            return False  # what has no gradient: data
        nodes.extend(following for following in inputs if following is not None)
        if one.name() == _LEAF:
            sizes.add(one.variable.numel())
        if not nodes:
            return _numbers(node) in sizes
    return False


def _numbers(node: Any) -> int:
    """Return the size of a node's largest result; 0 where it is none in whole numbers."""
    sizes = (
        math.prod(one.shape) for one in getattr(node, "_input_metadata", ()) if _is_whole(one.shape)
    )
    return max(sizes, default=0)


def _is_whole(shape: Any) -> bool:
    return all(type(size) is int for size in shape)  # not of nested tensors


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
        raw = _listed(getattr(node, _RAW + name))
        if not all(hasattr(one, _HOOK) for one in raw):
            return None
        if any(getattr(one, _HOOK) is not None for one in raw):
            return True
        own = not hasattr(type(node), f"_saved_{name}")  # a function of the program's own
        saved = _listed(getattr(node, f"saved_{name}" if own else f"_saved_{name}"))
    except RuntimeError:
        return False
    return True if any(one is not None for one in saved) else None


def _listed(value: Any) -> Any:
    return value if isinstance(value, (list, tuple)) else (value,)
