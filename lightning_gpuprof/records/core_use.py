"""Use of the cores that a run may compute on, and its threads' wait for one."""

from collections.abc import Iterable

from msgspec import Struct

from lightning_gpuprof.records.notes import last_noted
from lightning_gpuprof.records.schema import Note

CORES_NOTE = "core_use"
"""Note of this name: what was used from the beginning of training to its end."""
MIN_FOREIGN = 0.1
"""Of a core. A machine that does nothing else still has daemons: 0.01 to 0.07 were measured."""


class Program(Struct, frozen=True):
    """Processes of one name that are none of the run's.

    Args:
        name: As the kernel has it, at most fifteen characters.
        cpu_ns: Time of those that still ran at the end.
    """

    name: str
    cpu_ns: int


class CoreUse(Struct, frozen=True):
    """Times on the cores that this process may use, in nanoseconds.

    Args:
        cores: How many there are.
        wall_ns: Time between the two readings.
        busy_ns: Time of all programs on these cores.
        stolen_ns: Time that the hypervisor gave to other machines while a program here was ready.
        own_ns: Time of this process, on any core.
        family_ns: Time of its children and, where a run has several ranks, of all processes of the
            same launcher.
        queued_ns: How long the training thread was ready and waited for a core.
        others_queued_ns: The same of the thread of this process that waited longest beside it.
        programs: Other programs, the busiest first; empty where they are hidden.
    """

    cores: int
    wall_ns: int
    busy_ns: int
    stolen_ns: int
    own_ns: int
    family_ns: int
    queued_ns: int
    others_queued_ns: int
    programs: tuple[Program, ...] = ()

    @property
    def family_cores(self) -> float:
        """How many cores the run's other processes used on average."""
        return self.family_ns / max(1, self.wall_ns)

    @property
    def foreign_cores(self) -> float:
        """How many cores programs used that are none of this run."""
        foreign_ns = self.busy_ns - self.own_ns - self.family_ns
        return max(0, foreign_ns) / max(1, self.wall_ns)

    @property
    def stolen_cores(self) -> float:
        """How many cores the hypervisor gave to others."""
        return self.stolen_ns / max(1, self.wall_ns)

    @property
    def foreign_share(self) -> float:
        """The share of foreign programs in what computes beside this process; 0 of daemons' bit."""
        if self.foreign_cores < MIN_FOREIGN:
            return 0.0
        return self.foreign_cores / (self.foreign_cores + self.family_cores)

    @property
    def lost_frac(self) -> float:
        """The least share of the time that was lost to other programs and machines."""
        queued = self.foreign_share * self.queued_ns / max(1, self.wall_ns)
        return queued + self.stolen_cores / max(1, self.cores)


def core_use_noted(notes: Iterable[Note]) -> CoreUse | None:
    """Return the record; None where the system keeps no account of it."""
    return last_noted(notes, CORES_NOTE, CoreUse)
