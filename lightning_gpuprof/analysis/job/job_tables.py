"""What is known of a job from the traces of its ranks."""

from msgspec import Struct

from lightning_gpuprof.analysis.trace_tables import Count, Ns, TimeSplit

COMPUTE, COPIES, IDLE = "compute", "copies", "idle"
OPERATORS, OUTSIDE = "operators", "outside_operators"
DEVICE_PARTS, HOST_PARTS = (COMPUTE, COPIES, IDLE), (OPERATORS, OUTSIDE)
"""What a rank does between two collectives."""


class Delay(Struct, frozen=True):
    """How often a rank came last, what the others waited for it, and what it did meanwhile."""

    rank: int
    count: Count
    waited_ns: Ns
    """The sum over collectives of the mean wait of the other ranks."""
    cause: str
    """The part of its time between two collectives that exceeds the others' most."""


class RankTime(Struct, frozen=True):
    """Where the time of one rank went.

    Args:
        rank: Its number in the job.
        file: The name of its trace.
        steps: The marked steps in the trace.
        span_ns: The time that is divided: usual steps, or without marks the whole trace.
        device: How the device's time divides over the span; None in a trace without a device.
        collectives: How many collectives it took part in.
        in_collectives_ns: How long these took, including waits.
        waited_ns: How long it waited for the last rank in collectives that all ranks recorded.
        last_count: In how many of these it came last, and others waited.
    """

    rank: int
    file: str
    steps: Count
    span_ns: Ns
    device: TimeSplit | None
    collectives: Count
    in_collectives_ns: Ns
    waited_ns: Ns | None
    last_count: Count | None

    @property
    def in_collectives_frac(self) -> float | None:
        """The share of the span in collectives; None for an empty span."""
        return min(1.0, self.in_collectives_ns / self.span_ns) if self.span_ns else None


class CollectiveTime(Struct, frozen=True):
    """The collectives of one kind in one process group.

    Args:
        kind: `all_reduce`, `all_gather`, ...
        group: The process group's name and ranks, or `not recorded`.
        ranks: How many ranks' traces have them.
        group_size: The ranks in the group; None if not recorded.
        count: How many there are per rank, the most of any rank.
        matched: How many were found in the traces of all of `ranks`.
        num_bytes: The bytes of all `matched`; None if not recorded.
        wire_ns: The sum of the shortest duration of each over the ranks: after the last rank came,
            nobody waits.
        waited_ns: The sum of what a rank waited for the last one, in the mean of the ranks.
        algorithm_bytes_per_s: `num_bytes` over `wire_ns`.
        bus_bytes_per_s: What goes over the slowest link: NCCL's factor for kind and group size.
        last: Who came last, most often first.
    """

    kind: str
    group: str
    ranks: Count
    group_size: int | None
    count: Count
    matched: Count
    num_bytes: int | None
    wire_ns: Ns
    waited_ns: Ns
    algorithm_bytes_per_s: float | None
    bus_bytes_per_s: float | None
    last: tuple[Delay, ...]


class JobTraces(Struct, frozen=True):
    """The traces of a job's ranks, read together.

    Args:
        world_size: The ranks of the job.
        missing: Ranks of which there is no trace that could be read.
        on_device: Whether collectives are kernels of a device; otherwise ranges on the host.
        warnings: What could not be read or compared, in sentences.
    """

    world_size: int
    ranks: tuple[RankTime, ...]
    missing: tuple[int, ...]
    collectives: tuple[CollectiveTime, ...]
    delays: tuple[Delay, ...]
    """Over all collectives, the rank that others waited for longest first."""
    on_device: bool
    warnings: tuple[str, ...]
