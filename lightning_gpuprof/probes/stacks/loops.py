"""Finds the loop of a program that a line is in, by the program's text."""

import ast
from collections.abc import Iterator
from functools import lru_cache

from lightning_gpuprof.probes.stacks.program_text import tree_of

_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_GATHERS = frozenset(
    """cat concat concatenate stack hstack vstack append appendleft extend add maximum minimum max
    min logaddexp len log log_dict print item""".split()
)
"""Calls that put a turn's result to those before it, or tell of it: once behind the loop does."""
_APPENDS = ("append", "appendleft", "extend")
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def loop_line(file: str, line: int) -> int | None:
    """Return the line at which the innermost loop around a line begins, in the line's function.

    That is a `for`, a `while` or a comprehension. None where there is none, or no text to read.
    """
    found: int | None = None
    innermost = -1
    for first, last, begins in _spans(tree_of(file)):
        # Of two that both hold the line the one that begins later is inside the other.
        if first <= line <= last and first >= innermost:
            found, innermost = begins, first
    return found


def goes_on(file: str, begins: int) -> bool:
    """Tell whether a loop gives to a call what the turn before gave: `x = block(x)`.

    As well where that lies in a part of something: `x[i] = block(x[i - 1])`, or the last of a list.

    Args:
        file: The program's.
        begins: The loop's first line.
    """
    tree = tree_of(file)
    if tree is None:
        return False
    loops = (node for node in ast.walk(tree) if isinstance(node, _LOOPS))
    return any(_goes_on(loop) for loop in loops if loop.lineno == begins)


def _goes_on(loop: ast.For | ast.AsyncFor | ast.While) -> bool:
    first: dict[str, bool] = {}
    stored: set[str] = set()
    parts: dict[str, set[str]] = {}
    given: list[ast.expr] = []
    own = [loop.test] if isinstance(loop, ast.While) else [loop.target]
    for node in (one for part in (*own, *loop.body) for one in _in_order(part)):
        if isinstance(node, ast.Name | ast.Attribute):
            is_stored = isinstance(node.ctx, ast.Store)
            name = ast.unparse(node)
            first.setdefault(name, is_stored)
            if is_stored:
                stored.add(name)
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            parts.setdefault(ast.unparse(node.value), set()).add(ast.unparse(node.slice))
        elif isinstance(node, ast.Call):
            of = node.func.value if isinstance(node.func, ast.Attribute) else None
            if of is not None and _called(node) in _APPENDS:
                parts.setdefault(ast.unparse(of), set())
            if _called(node) not in _GATHERS:
                values = [*node.args, *(one.value for one in node.keywords), *([of] if of else [])]
                given += [one for value in values for one in _given(value)]
    kept = {name for name in (*stored, *parts) if not first.get(name, False)}
    return any(_is_of(one, kept, parts) for one in given)


def _is_of(given: ast.expr, kept: set[str], parts: dict[str, set[str]]) -> bool:
    """Tell whether a value is kept from turn to turn; of a part, whether it is another turn's."""
    if not isinstance(given, ast.Subscript):
        return ast.unparse(given) in kept
    name, part = ast.unparse(given.value), ast.unparse(given.slice)
    return name in kept and part not in parts.get(name, ())


def _in_order(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the parts of a statement as they are run: what is assigned before what to."""
    inside: list[ast.AST]
    if isinstance(node, ast.Assign):
        inside = [node.value, *node.targets]
    elif isinstance(node, ast.AugAssign | ast.NamedExpr):
        inside = [node.value, node.target]
    elif isinstance(node, ast.For | ast.AsyncFor):
        inside = [node.iter, node.target, *node.body, *node.orelse]
    elif isinstance(node, ast.comprehension):
        inside = [node.iter, node.target, *node.ifs]
    elif isinstance(node, _COMPREHENSIONS):
        made = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        inside = [*node.generators, *made]
    else:
        inside = list(ast.iter_child_nodes(node))
    for one in inside:
        yield from _in_order(one)
    yield node


def _given(part: ast.expr) -> Iterator[ast.expr]:
    """Yield the names and parts in what a call is given, but not in the calls inside of that."""
    if isinstance(part, ast.Subscript) and isinstance(part.value, ast.Name | ast.Attribute):
        yield part
        yield from _given(part.slice)
    elif isinstance(part, ast.Name | ast.Attribute):
        yield part
    elif not isinstance(part, ast.Call):
        for one in ast.iter_child_nodes(part):
            if isinstance(one, ast.expr):
                yield from _given(one)


def _called(call: ast.Call) -> str:
    return ast.unparse(call.func).rpartition(".")[2]


@lru_cache(maxsize=64)
def _spans(tree: ast.Module | None) -> tuple[tuple[int, int, int | None], ...]:
    """Return first and last line of each loop and function, outer ones first.

    Third is where a loop begins; None of a function, which is in no loop by being defined in one.
    """
    if tree is None:
        return ()
    spans: list[tuple[int, int, int | None]] = []
    for node in ast.walk(tree):
        if isinstance(node, _LOOPS):
            # What a `for` goes through is computed once, what a `while` asks each time.
            first = node.lineno if isinstance(node, ast.While) else node.body[0].lineno
            spans.append((first, node.body[-1].end_lineno or first, node.lineno))
        elif isinstance(node, _COMPREHENSIONS):
            spans.append((node.lineno, node.end_lineno or node.lineno, node.lineno))
        elif isinstance(node, _FUNCTIONS):
            spans.append((node.lineno, node.end_lineno or node.lineno, None))
    return tuple(spans)
