"""What is recorded of late ranks, and differs on the others."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from statistics import mean, median

from lightning_gpuprof.records.facts import BatchSizes, CoreWait, IoPressure, PageFaults
from lightning_gpuprof.records.reader import Session
from lightning_gpuprof.records.schema import DeviceSample

MORE = 1.5
"""A share counts if it is so many times that of the others."""
LEAST_FRAC = 0.05
LARGER = 1.05
"""Batches, or times at lower clocks, that differ by less take about equally long."""


class Reason(str, Enum):
    """What may make a rank late."""

    CORE_WAIT = "core_wait"
    """The training thread waits for a core."""
    STORAGE = "io_stalled"
    """Tasks on the machine wait for storage."""
    MEMORY = "page_fault"
    """The kernel gives out memory to the training thread."""
    BATCHES = "larger_batch"
    """Batches are larger."""
    CLOCKS = "lower_clock"
    """The GPU runs at a lower clock."""
    PROGRAMS = "other_programs"
    """Other programs use the GPU."""


@dataclass(frozen=True)
class LateReason:
    """A reason with its share on the late ranks and, as a median, on the others.

    Of larger batches and lower clocks, it is by how much they differ from the others, which is 0
    there. Of other programs, it is their largest number.
    """

    reason: Reason
    late: float
    others: float


def late_reasons(late: Sequence[Session], others: Sequence[Session]) -> tuple[LateReason, ...]:
    """Return what differs on the late ranks, as far as all of them and some others measured it."""
    reasons = []
    for reason, read in _SHARES.items():
        pair = _compared(read, late, others)
        if pair is not None and pair[0] >= LEAST_FRAC and pair[0] >= MORE * pair[1]:
            reasons.append(LateReason(reason, *pair))
    sizes = _compared(_batch_size, late, others)
    if sizes is not None and sizes[0] >= LARGER * sizes[1] > 0:
        reasons.append(LateReason(Reason.BATCHES, sizes[0] / sizes[1] - 1, 0.0))
    clocks = _compared(_clock_mhz, late, others)
    if clocks is not None and clocks[1] >= LARGER * clocks[0] > 0:
        reasons.append(LateReason(Reason.CLOCKS, 1 - clocks[0] / clocks[1], 0.0))
    programs = _compared(_other_programs, late, others)
    if programs is not None and programs[0] > programs[1]:
        reasons.append(LateReason(Reason.PROGRAMS, *programs))
    return tuple(reasons)


def _compared(
    read: Callable[[Session], float | None], late: Sequence[Session], others: Sequence[Session]
) -> tuple[float, float] | None:
    on_late = [value for session in late if (value := read(session)) is not None]
    elsewhere = [value for session in others if (value := read(session)) is not None]
    if len(on_late) < len(late) or not elsewhere:
        return None
    return mean(on_late), median(elsewhere)


def _core_wait(session: Session) -> float | None:
    wait = session.last(CoreWait)
    return None if wait is None else wait.frac


def _storage(session: Session) -> float | None:
    pressure = session.last(IoPressure)
    return None if pressure is None else pressure.stalled_ns / max(1, pressure.wall_ns)


def _memory(session: Session) -> float | None:
    faults, wait = session.last(PageFaults), session.last(CoreWait)
    return None if faults is None or wait is None else faults.system_ns / max(1, wait.wall_ns)


def _batch_size(session: Session) -> float | None:
    batches = session.last(BatchSizes)
    return None if batches is None or not batches.sizes else mean(batches.sizes)


def _clock_mhz(session: Session) -> float | None:
    clocks = [sample.max_sm_clock_mhz for sample in session.all(DeviceSample)]
    known = [clock for clock in clocks if clock]
    return median(known) if known else None


def _other_programs(session: Session) -> float | None:
    counts = [sample.max_others_count for sample in session.all(DeviceSample)]
    known = [count for count in counts if count is not None]
    return max(known, default=None)


_SHARES: Mapping[Reason, Callable[[Session], float | None]] = {
    Reason.CORE_WAIT: _core_wait,
    Reason.STORAGE: _storage,
    Reason.MEMORY: _memory,
}
