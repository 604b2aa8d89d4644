"""How much of the machine's cores a container may use, and how often it was made to wait."""

from collections.abc import Iterable

from msgspec import Struct

from lightning_gpuprof.records.notes import last_noted
from lightning_gpuprof.records.schema import Note

QUOTA_NOTE = "cpu_quota"
"""Note of this name: what the control group's counters grew by while training ran."""


class CpuQuota(Struct, frozen=True):
    """A limit that Docker, Kubernetes or systemd has set (CFS bandwidth control).

    Args:
        cores: Time on cores that may be used per time.
        periods: Periods (of 100 ms as a rule) in which it ran.
        throttled: Those in which it had used its share up and was made to wait for the next.
    """

    cores: float
    periods: int
    throttled: int

    def since(self, earlier: "CpuQuota") -> "CpuQuota":
        """Return the counts since an earlier reading."""
        periods, throttled = self.periods - earlier.periods, self.throttled - earlier.throttled
        return CpuQuota(self.cores, max(0, periods), max(0, throttled))


def cpu_quota_noted(notes: Iterable[Note]) -> CpuQuota | None:
    """Return what was noted; None where there is no quota."""
    return last_noted(notes, QUOTA_NOTE, CpuQuota)
