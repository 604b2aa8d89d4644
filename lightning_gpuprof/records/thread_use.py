"""What the Python threads of a process took while the training thread was sampled: in a note."""

from msgspec import Struct


class ThreadLoad(Struct, frozen=True):
    """What another Python thread of the process did while samples were taken.

    Args:
        name: The thread's name.
        cpu_ns: Time on a core.
        file: Where it was seen most often, in the user's code if it is there.
        line: Its line.
        function: Its function.
        source: The line's text; empty where it could not be read.
    """

    name: str
    cpu_ns: int
    file: str = ""
    line: int = 0
    function: str = ""
    source: str = ""


class ThreadUse(Struct, frozen=True):
    """How long the training thread ran while samples were taken, and what others did.

    Args:
        watched_ns: Wall time from the first sample to the last.
        cpu_ns: Time of the training thread on a core.
        queued_ns: Time in which it was ready but had no core.
        others: The other threads, the busiest first.
    """

    watched_ns: int
    cpu_ns: int
    queued_ns: int
    others: tuple[ThreadLoad, ...]
