"""Notices that torch.compile compiled something, and how long it took, from dynamo's counters."""

import sys
from typing import Any

_COMPILATIONS = ("entire_frame_compile", "entire_backward_compile")
"""Of dynamo's timed events those that no other encloses."""


class CompileWatch:
    """Compares dynamo's counters between two looks; never imports dynamo."""

    def __init__(self) -> None:
        self._seen = self._spent_ns = 0
        self.compiled_since()
        self.took_ns()

    def compiled_since(self, dynamo: Any = None) -> bool:
        """Tell whether anything was compiled since the last call.

        Args:
            dynamo: The module `torch._dynamo.utils`, where the caller has looked it up already.
        """
        dynamo = dynamo or sys.modules.get("torch._dynamo.utils")
        if dynamo is None:
            return False
        # `.get`: these are defaultdicts, and looking must not add keys.
        frames = dynamo.counters.get("frames")
        count = frames.get("total", 0) if frames else 0
        compiled = bool(count > self._seen)
        self._seen = count
        return compiled

    @staticmethod
    def compiled_before() -> bool:
        """Tell whether anything was compiled in this process so far."""
        dynamo = sys.modules.get("torch._dynamo.utils")
        frames = dynamo.counters.get("frames") if dynamo is not None else None
        return bool(frames and frames.get("total", 0))

    def took_ns(self) -> int | None:
        """Return what compiling took since the last call; None where dynamo does not say."""
        dynamo = sys.modules.get("torch._dynamo.utils")
        times = getattr(dynamo, "cumulative_time_spent_ns", None)
        if times is None:
            return None
        spent_ns = sum(int(times.get(event, 0)) for event in _COMPILATIONS)
        # A reset of dynamo begins anew.
        taken_ns = spent_ns - self._spent_ns if spent_ns >= self._spent_ns else spent_ns
        self._spent_ns = spent_ns
        return taken_ns
