"""Shared by the benchmarks that gpu.py runs: options, their file, going on after a failure."""

import json
import traceback
import warnings
from argparse import ArgumentParser
from collections.abc import Callable
from pathlib import Path
from subprocess import SubprocessError
from typing import Any

FAILURES = (RuntimeError, ValueError, TypeError, AttributeError, LookupError, ArithmeticError,
            AssertionError, StopIteration, OSError, SubprocessError)  # fmt: skip


def options(doc: str | None, *, seconds: float) -> ArgumentParser:
    """Return the options that gpu.py gives each of them."""
    warnings.filterwarnings("ignore")
    parser = ArgumentParser(description=(doc or "").splitlines()[0])
    parser.add_argument("--json", type=Path, help="where the figures go as well")
    parser.add_argument("--seconds", type=float, default=seconds, help="time for all")
    return parser


def keep(figures: dict[str, Any], path: Path | None) -> None:
    """Write the figures so far, where a file is named."""
    if path is not None:
        path.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


def attempted(measure: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return the measured figures, or the traceback under `failure`."""
    try:
        return measure()
    except FAILURES as error:
        traceback.print_exc()
        return {"failure": "".join(traceback.format_exception(error)).splitlines()}
