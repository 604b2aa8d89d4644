"""Notices that torch.compile compiled something, from dynamo's own counters."""

import sys
from typing import Any


class CompileWatch:
    """Compares dynamo's counters between two looks; never imports dynamo."""

    def __init__(self) -> None:
        self._seen = 0
        self.compiled_since()

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
