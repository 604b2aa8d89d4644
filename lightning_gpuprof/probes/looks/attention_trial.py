"""Tries what attention costs with and without the weights that nobody reads."""

import ast
import inspect
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import multi_head_attention_forward

from lightning_gpuprof.probes.looks.call_places import shown
from lightning_gpuprof.probes.stacks.program_text import tree_of
from lightning_gpuprof.probes.stacks.stack_lines import Place
from lightning_gpuprof.records.attention import UnreadWeights

ROUNDS = 3
MOST_NS = 500_000_000
"""A trial that has taken so long is tried no further."""
_ARGUMENTS = inspect.signature(multi_head_attention_forward)


def unread_weights(
    calls: Sequence[tuple[Place, Any, Any, int]], clock: Callable[[], int]
) -> UnreadWeights | None:
    """Return the attention of one batch whose weights the calling line drops.

    On a CPU each size is tried: forward and backward pass of copies of its tensors, with and
    without weights. No gradient, hook or random number of the program's is touched.
    """
    found = [one for one in calls if drops_second(one[0][0], one[0][1])]
    if not found:
        return None
    total, with_ns, without_ns = 0, 0, 0
    tried: dict[Any, tuple[int, int]] = {}
    on_cpu = True
    for _, args, kwargs, _ in found:
        given = _ARGUMENTS.bind(*args, **kwargs).arguments
        query, key = given["query"], given["key"]
        batch = query.shape[1] if query.dim() > 2 else 1
        heads = given["num_heads"]
        total += batch * heads * query.shape[0] * key.shape[0] * query.element_size()
        on_cpu = on_cpu and query.device.type == "cpu"
        if not on_cpu:
            continue
        size = (query.shape, key.shape, heads)
        if size not in tried:
            tried[size] = _try(given, clock)
        with_ns, without_ns = with_ns + tried[size][0], without_ns + tried[size][1]
    places = tuple(shown(place) for place in dict.fromkeys(one[0] for one in found))
    return UnreadWeights(
        calls=len(found),
        weight_bytes=total,
        with_ns=with_ns if on_cpu else None,
        without_ns=without_ns if on_cpu else None,
        places=places,
    )


def _try(given: dict[str, Any], clock: Callable[[], int]) -> tuple[int, int]:
    taken: dict[bool, list[int]] = {True: [], False: []}
    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        for number in range(2 * ROUNDS):
            need = number % 2 == 0
            taken[need].append(_pass(given, need, clock))
            if not need and sum(taken[True]) + sum(taken[False]) > MOST_NS:
                break
    return min(taken[True]), min(taken[False])


def _pass(given: dict[str, Any], need: bool, clock: Callable[[], int]) -> int:
    copies: dict[int, Tensor] = {}

    def copied(value: Any) -> Any:
        # One copy of each tensor: self-attention tells by identity that query and key are one.
        if not isinstance(value, Tensor):
            return value
        if id(value) not in copies:
            copies[id(value)] = value.detach().clone().requires_grad_(value.requires_grad)
        return copies[id(value)]

    own = {name: copied(value) for name, value in given.items()} | {"need_weights": need}
    begin_ns = clock()
    with _autocast(own):
        output = multi_head_attention_forward(**own)[0]
    inputs = [one for one in copies.values() if one.requires_grad]
    if inputs:
        torch.autograd.grad(output, inputs, torch.ones_like(output), allow_unused=True)
    return clock() - begin_ns


def _autocast(given: dict[str, Any]) -> AbstractContextManager[Any]:
    """Let tensors of several dtypes meet as they did in training."""
    numbers = [one for one in given.values() if isinstance(one, Tensor) and one.is_floating_point()]
    kinds = {one.dtype for one in numbers}
    if len(kinds) < 2:
        return nullcontext()
    return torch.autocast("cpu", dtype=min(kinds, key=lambda one: one.itemsize))


def drops_second(file: str, line: int) -> bool:
    """Tell whether a line calls something that gives a pair whose second is never read.

    `x, _ = self.attention(...)` and `self.attention(...)[0]` do. What cannot be told does not.
    """
    tree = tree_of(file)
    functions = [
        node
        for node in ast.walk(tree or ast.Module([], []))
        if isinstance(node, ast.FunctionDef) and node.lineno <= line <= (node.end_lineno or 0)
    ]
    if not functions:
        return False
    function = functions[-1]
    within = [
        node
        for node in ast.walk(function)
        if isinstance(node, ast.Assign | ast.Subscript)
        and node.lineno <= line <= (node.end_lineno or 0)
        and isinstance(node.value, ast.Call)
    ]
    return any(_takes_first(node) or _names_unread(node, function) for node in within)


def _takes_first(node: ast.Assign | ast.Subscript) -> bool:
    at = node.slice if isinstance(node, ast.Subscript) else None
    return isinstance(at, ast.Constant) and at.value == 0


def _names_unread(node: ast.Assign | ast.Subscript, function: ast.FunctionDef) -> bool:
    if not isinstance(node, ast.Assign) or len(node.targets) != 1:
        return False
    target = node.targets[0]
    if not isinstance(target, ast.Tuple) or len(target.elts) != 2:
        return False
    second = target.elts[1]
    return isinstance(second, ast.Name) and not any(
        isinstance(one, ast.Name) and one.id == second.id and isinstance(one.ctx, ast.Load)
        for one in ast.walk(function)
    )
