"""Notices that torch.compile compiled something, from dynamo's own counters."""

import sys


class CompileWatch:
    """Compares dynamo's counters between two looks; never imports dynamo."""

    def __init__(self) -> None:
        self._seen = self._count()

    def compiled_since(self) -> bool:
        """Tell whether anything was compiled since the last call."""
        count = self._count()
        compiled = count > self._seen
        self._seen = count
        return compiled

    def _count(self) -> int:
        dynamo = sys.modules.get("torch._dynamo.utils")
        if dynamo is None:
            return 0
        # `.get`: these are defaultdicts, and looking must not add keys.
        frames = dynamo.counters.get("frames")
        return int(frames.get("total", 0)) if frames else 0
