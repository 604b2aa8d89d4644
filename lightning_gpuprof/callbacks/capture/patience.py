"""How much of its time a process may wait at the ends of its fits."""

AGAIN_AFTER = 20
"""Who has waited does so again when this many times as long has passed: a fit that takes minutes
waits for its trace, of many short ones in a row the first, and all of them together spend no more
than a twentieth of their time on it, but for making room (`TraceFinisher.make_room`)."""


class Patience:
    """Says whether the end of a fit may wait, after what earlier ones in this process did."""

    def __init__(self) -> None:
        self._again_ns = 0

    def left(self, now_ns: int) -> bool:
        """Tell whether one may wait now."""
        return now_ns >= self._again_ns

    def spend(self, begun_ns: int, ended_ns: int) -> None:
        """Take note of a wait."""
        self._again_ns = max(self._again_ns, ended_ns + AGAIN_AFTER * (ended_ns - begun_ns))


PATIENCE = Patience()
"""This process's."""
