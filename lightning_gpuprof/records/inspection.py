"""What `lightning-gpuprof inspect` finds in a few steps of a script."""

import msgspec

from lightning_gpuprof.records.facts import SyncSteps, UnusedGradients
from lightning_gpuprof.records.lines import CodePlace
from lightning_gpuprof.records.schema import Record, SyncSite


class Waste(msgspec.Struct, frozen=True):
    """Work for nothing.

    `kind` is `unused-gradients`, `retained-graph`, `anomaly-detection`, `graph-break` or
    `recompilation`.
    """

    kind: str
    title: str
    advice: str
    place: CodePlace | None = None


class CallCount(msgspec.Struct, frozen=True):
    """How often a function of the user's own, or one to its workers, runs in a step.

    `makes` counts the calls per step that its own lines make, of Python and of built-in functions.
    """

    file: str
    line: int
    function: str
    calls: float
    makes: float
    to_workers: bool = False


class Inspection(msgspec.Struct, frozen=True):
    """The findings.

    Args:
        sync_steps: Steps that were watched for host syncs.
        sites: The lines that sync, those that block longest first.
        syncs_raise: The script has set `torch.cuda.set_sync_debug_mode("error")`: nothing was
            watched.
        work_steps: Steps whose work and calls were examined.
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
