"""What `lightning-gpuprof inspect` finds in a few steps of a script."""

import msgspec

from lightning_gpuprof.records.code_place import CodePlace
from lightning_gpuprof.records.facts import SyncSteps, UnusedGradients
from lightning_gpuprof.records.schema import Record, SyncSite


class Waste(msgspec.Struct, frozen=True):
    """Work that a training step does for nothing.

    Args:
        kind: `unused-gradients`, `retained-graph` or `anomaly-detection`.
        title: The waste in a sentence.
        advice: The change.
        place: The line, where one is known.
    """

    kind: str
    title: str
    advice: str
    place: CodePlace | None = None


class CallCount(msgspec.Struct, frozen=True):
    """How often a function of the user's own runs in a step, and how much it calls.

    Args:
        file: Its file.
        line: Its first line.
        function: Its name.
        calls: Calls of it per step.
        makes: Calls per step that its own lines make, of Python functions and built-in ones.
    """

    file: str
    line: int
    function: str
    calls: float
    makes: float


class Inspection(msgspec.Struct, frozen=True):
    """What was found.

    Args:
        sync_steps: Steps that were watched for host syncs.
        sites: The lines that sync, those that block longest first.
        syncs_raise: The script has set `torch.cuda.set_sync_debug_mode("error")`: nothing was
            watched.
        work_steps: Steps whose work was looked at and whose calls were counted.
        waste: Work for nothing.
        unused_gradients: The parameters behind the waste of that kind.
        calls: The user's functions that make the most calls.
        calls_per_step: All Python calls of a step; None where another profiler was on.
        trainers: Trainers that the script made.
    """

    sync_steps: int = 0
    sites: tuple[SyncSite, ...] = ()
    syncs_raise: bool = False
    work_steps: int = 0
    waste: tuple[Waste, ...] = ()
    unused_gradients: UnusedGradients | None = None
    calls: tuple[CallCount, ...] = ()
    calls_per_step: float | None = None
    trainers: int = 1

    def records(self) -> list[Record]:
        """Return the records that a run's rules read."""
        found: list[Record] = [*self.sites, SyncSteps(self.sync_steps)]
        if self.unused_gradients is not None:
            found.append(self.unused_gradients)
        return found
