"""Options of trace readers."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class ReadOptions:
    """Parts to read beyond the events themselves.

    Args:
        stacks: Read Python calls too, where the file holds them; they cost time and memory.
        memory: Read the allocator's marks too.
        progress: Called now and then with the bytes of the file read so far and its size.
    """

    stacks: bool = False
    memory: bool = False
    progress: Callable[[int, int], None] | None = None
