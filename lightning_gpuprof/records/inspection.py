"""The results of `lightning-gpuprof inspect`, which watches a few steps of a script."""

import msgspec

from lightning_gpuprof.records.facts import SyncSteps, UnusedGradients
from lightning_gpuprof.records.lines import CodePlace
from lightning_gpuprof.records.schema import Record, SyncSite


class Waste(msgspec.Struct, frozen=True):
    """Work that a step could do without.

    `kind` is `unused-gradients`, `retained-graph`, `anomaly-detection`, `graph-break` or
    `recompilation`.
    """

    kind: str
    title: str
    advice: str
    place: CodePlace | None = None


class CallCount(msgspec.Struct, frozen=True):
    """How often a function of the user's program runs in a step.

    Args:
        calls: Calls of the function per step.
        makes: Calls of Python and built-in functions per step that its own lines make.
        to_workers: The function is not the user's own: it sends work to worker processes.
    """

    file: str
    line: int
    function: str
    calls: float
    makes: float
    to_workers: bool = False


class Inspection(msgspec.Struct, frozen=True):
    """What an inspection measured.

    Args:
        sync_steps: Steps that were watched for host syncs.
        sites: Lines that make the host wait for the device, the longest waits first.
        syncs_raise: The script has set `torch.cuda.set_sync_debug_mode("error")`, so that no step
            was watched.
        work_steps: Steps whose work and calls were examined.
        calls: The user's functions that make the most calls.
        calls_per_step: All Python calls of a step; None if another profiler was active.
        trainers: How many Trainers the script created.
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
        """Return the records that the rules of a run read."""
        records: list[Record] = [*self.sites, SyncSteps(self.sync_steps)]
        if self.unused_gradients is not None:
            records.append(self.unused_gradients)
        return records
