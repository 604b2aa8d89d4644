"""Lets a benchmark go on where one of the things that it measures fails."""

import traceback
from collections.abc import Callable
from subprocess import SubprocessError
from typing import Any

FAILURES = (RuntimeError, ValueError, TypeError, AttributeError, LookupError, ArithmeticError,
            AssertionError, StopIteration, OSError, SubprocessError)  # fmt: skip


def attempted(measure: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return the measured figures, or the traceback under `failure`."""
    try:
        return measure()
    except FAILURES as error:
        traceback.print_exc()
        return {"failure": "".join(traceback.format_exception(error)).splitlines()}
