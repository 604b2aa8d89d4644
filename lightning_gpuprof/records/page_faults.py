"""How often the training thread touched a page of memory that the system first had to hand out."""

from collections.abc import Iterable

from msgspec import Struct

from lightning_gpuprof.records.notes import last_noted
from lightning_gpuprof.records.schema import Note

FAULTS_NOTE = "page_faults"
"""Note of this name: what was counted from behind the first batches to the end of training."""


class PageFaults(Struct, frozen=True):
    """Page faults that no disk was asked for (minor faults), of one thread.

    Args:
        batches: Batches of training in that time.
        faults: How many.
        system_ns: What the thread spent in the system's kernel, for these and for all else.
        fault_ns: What one took in a trial: fresh memory that was written to page by page.
        page_bytes: Size of a page.
    """

    batches: int
    faults: int
    system_ns: int
    fault_ns: float
    page_bytes: int

    def cost_ns(self, handed_bytes: int = 0) -> int:
        """Return what they take per batch, at most all the time in the kernel.

        Args:
            handed_bytes: Of a batch, where other processes hand it over: its pages are new anyway.
        """
        counted = self.faults / self.batches - handed_bytes / self.page_bytes
        return max(0, round(min(counted * self.fault_ns, self.system_ns / self.batches)))


def page_faults_noted(notes: Iterable[Note]) -> PageFaults | None:
    """Return what was noted; None where the system does not count them by thread."""
    return last_noted(notes, FAULTS_NOTE, PageFaults)
