"""Notices torch.compile at work from the counters and warnings of `torch._dynamo`.

Nothing here imports dynamo, which takes a second: a program that compiles has done so.

Private names, seen in torch 2.2 to 2.13. Without them no compilation is noticed:
    torch._dynamo.utils.counters, .cumulative_time_spent_ns (torch 2.7)
    the logger `torch._dynamo.convert_frame`, which warns once of each function that reaches a limit
"""

import linecache
import logging
import os
import re
import sys
from collections.abc import Callable, Mapping
from typing import Any

import torch
from typing_extensions import override

from lightning_gpuprof.records.code_place import CodePlace
from lightning_gpuprof.records.facts import CompileLimit

is_compiling: Callable[[], bool] = getattr(torch.compiler, "is_compiling", lambda: False)
"""Whether torch.compile traces the code that asks. torch has it from 2.3 on, and traces it as a
constant; before, a program's regions are traced as any other code."""

LOGGER = "torch._dynamo.convert_frame"
_COMPILATIONS = ("entire_frame_compile", "entire_backward_compile")
"""The timed events that no other encloses."""
_WARNING = re.compile(
    r"hit config\.(?P<limit>\w+) \((?P<count>\d+)\)\s+"
    r"function: '(?P<function>[^']*)' \((?P<file>.*):(?P<line>\d+)\)\s+"
    r"last reason: (?P<reason>[^\n]*)"
)
_NUMBER = re.compile(r"^\d+/\d+: ")
"""Which compilation failed a guard: `0/7: `."""
_BEHIND = re.compile(r"\s+#\s|\s*\(HINT")
"""What comes behind the guard: the line that made it, and torch's advice."""
_LONGEST = 200

_MODULES = sys.modules


def counters() -> Mapping[str, Any] | None:
    """Return dynamo's counters; None while nothing has imported it."""
    return getattr(_MODULES.get("torch._dynamo.utils"), "counters", None)


def _compiled() -> int:
    # `.get`: these are defaultdicts, and reading must not add keys.
    frames = (counters() or {}).get("frames")
    return int(frames.get("total", 0)) if frames else 0


class Compilations:
    """Tells what was compiled since the last call."""

    def __init__(self) -> None:
        self._count = _compiled()
        self._spent_ns = 0
        self.took_ns()

    def compiled_since(self) -> bool:
        """Tell whether anything was compiled since the last call."""
        before, self._count = self._count, _compiled()
        return self._count > before

    def took_ns(self) -> int | None:
        """Return what compiling took since the last call; None where dynamo does not say."""
        utils = _MODULES.get("torch._dynamo.utils")
        times = getattr(utils, "cumulative_time_spent_ns", None)
        if times is None:
            return None
        before, self._spent_ns = self._spent_ns, sum(int(times.get(e, 0)) for e in _COMPILATIONS)
        # A reset of dynamo begins anew.
        return self._spent_ns - before if self._spent_ns >= before else self._spent_ns


class CompileLimits(logging.Handler):
    """Keeps dynamo's warnings while a session lasts; `take` reads them, outside of dynamo."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._heard: list[logging.LogRecord] = []
        logging.getLogger(LOGGER).addHandler(self)

    @override
    def emit(self, record: logging.LogRecord) -> None:
        self._heard.append(record)

    def take(self) -> list[CompileLimit]:
        """Return the functions that were given up since the last call."""
        heard, self._heard = self._heard, []
        found = (read_warning(record.getMessage()) for record in heard)
        return [limit for limit in found if limit is not None]

    @override
    def close(self) -> None:
        """Stop listening."""
        logging.getLogger(LOGGER).removeHandler(self)
        super().close()


def read_warning(text: str) -> CompileLimit | None:
    """Return the limit that a warning names; None for any other warning."""
    match = _WARNING.search(text)
    if match is None:
        return None
    reason = _BEHIND.split(_NUMBER.sub("", match["reason"].strip()), maxsplit=1)[0]
    file, line, here = os.path.abspath(match["file"]), int(match["line"]), os.getcwd()
    shown = os.path.relpath(file, here) if file.startswith(here + os.sep) else file
    source = linecache.getline(file, line).strip()
    return CompileLimit(
        limit=match["limit"],
        count=int(match["count"]),
        reason=" ".join(reason.split())[:_LONGEST],
        place=CodePlace(shown, line, match["function"], source),
    )
