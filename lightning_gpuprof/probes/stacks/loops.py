"""Finds the loop of a program that a line is in, by the program's text."""

import ast
import linecache
from functools import lru_cache

_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def loop_line(file: str, line: int) -> int | None:
    """Return the line at which the innermost loop around a line begins, in the line's function.

    That is a `for`, a `while` or a comprehension. None where there is none, or no text to read.
    """
    found: int | None = None
    innermost = -1
    for first, last, begins in _spans("".join(linecache.getlines(file))):
        # Of two that both hold the line the one that begins later is inside the other.
        if first <= line <= last and first >= innermost:
            found, innermost = begins, first
    return found


@lru_cache(maxsize=64)
def _spans(text: str) -> tuple[tuple[int, int, int | None], ...]:
    """Return first and last line of each loop and function, outer ones first.

    Third is where a loop begins; None of a function, which is in no loop by being defined in one.
    """
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return ()
    spans: list[tuple[int, int, int | None]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.For | ast.AsyncFor | ast.While):
            # What a `for` goes through is computed once, what a `while` asks each time.
            first = node.lineno if isinstance(node, ast.While) else node.body[0].lineno
            spans.append((first, node.body[-1].end_lineno or first, node.lineno))
        elif isinstance(node, _COMPREHENSIONS):
            spans.append((node.lineno, node.end_lineno or node.lineno, node.lineno))
        elif isinstance(node, _FUNCTIONS):
            spans.append((node.lineno, node.end_lineno or node.lineno, None))
    return tuple(spans)
