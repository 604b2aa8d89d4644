"""Reads the text of a program as Python does, and says nothing about it."""

import ast
import linecache
import warnings
from functools import lru_cache


def tree_of(file: str) -> ast.Module | None:
    """Return a file as a syntax tree; None where there is no text, or none that is Python.

    What is odd about the program (an escape that is none) it was told when it was imported.
    """
    return _kept("".join(linecache.getlines(file)))


def parsed(text: str) -> ast.Module | None:
    """Return a text as a syntax tree; None where it is no Python."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(text)
        except (SyntaxError, ValueError):
            return None


_kept = lru_cache(maxsize=64)(parsed)
