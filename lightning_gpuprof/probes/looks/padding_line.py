"""Finds the line that pads: in what makes the batches, or in what makes the samples."""

import inspect
import re
from collections.abc import Iterator
from types import CodeType
from typing import Any

from lightning_gpuprof.probes.stacks.stack_lines import package_of, shown_path
from lightning_gpuprof.records.module_calls import CallPlace

_PADS = (
    re.compile(r"max_length|pad_sequence\(|\bpad\("),
    re.compile(r"\.(new_)?(zeros|full|ones|empty)\(|\+=? *\[.*\] *\*|\bpad"),
)
"""What a line that pads looks like: by name first, by what it makes else."""


def padding_line(loader: Any) -> CallPlace | None:
    """Return the line of the program that makes batches as long as they are, if one looks so."""
    codes = [code for code in _codes(loader) if package_of(code.co_filename) == ""]
    for looks in _PADS:
        for code in codes:
            for number, text in _lines(code):
                source = text.strip()
                if looks.search(source) and not source.startswith(("#", "def ", '"')):
                    return CallPlace(shown_path(code.co_filename), number, code.co_name, source)
    return None


def _codes(loader: Any) -> Iterator[CodeType]:
    dataset = getattr(loader, "dataset", None)
    collate = getattr(loader, "collate_fn", None)
    methods = [(collate, ""), (type(collate), "__call__")]
    methods += [(dataset, name) for name in ("__getitem__", "__iter__", "__init__")]
    for owner, name in methods:
        method = getattr(owner, name, None) if name else owner
        code = getattr(getattr(method, "__func__", method), "__code__", None)
        if isinstance(code, CodeType):
            yield code


def _lines(code: CodeType) -> list[tuple[int, str]]:
    try:
        lines, first = inspect.getsourcelines(code)
    except (OSError, TypeError):
        return []
    return list(enumerate(lines, first))
