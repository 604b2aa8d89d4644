"""What else is known of a session's steps: sizes of batches, memory, clocks, collections."""

from collections.abc import Iterator
from statistics import median

from lightning_gpuprof.analysis.run.device_use import device_use
from lightning_gpuprof.arrays import Int64, Mask
from lightning_gpuprof.records.facts import HostCounters, ProcessMemory, WorkerMemory
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.records.reader import Session
from lightning_gpuprof.records.schema import Memory

_COLUMNS = {
    "samples": "samples_per_batch_count",
    "numbers": "numbers_per_batch_count",
}
_COUNTERS = (
    ("waiting_for_a_core_frac", "queued_ns", "time"),
    ("others_waiting_for_a_core_frac", "cpu_stalled_ns", "time"),
    ("waiting_for_storage_frac", "storage_stalled_ns", "time"),
    ("in_the_kernel_frac", "system_ns", "time"),
    ("new_pages_per_step_count", "minor_faults", "step"),
    ("pages_read_per_step_count", "major_faults", "step"),
    ("read_per_step_bytes", "read_bytes", "step"),
    ("read_from_storage_per_step_bytes", "storage_read_bytes", "step"),
)
"""Counters of `HostCounters` as figures, per step or as a share of the time."""


def circumstances(session: Session, steady: Mask) -> dict[str, float]:
    """Return figures of the steps that may explain their length; names end in the unit.

    Memory is the median of the readings, since peaks are those since the process began.
    """
    return dict(_figures(session, steady))


def _figures(session: Session, steady: Mask) -> Iterator[tuple[str, float]]:
    for name, figure in _COLUMNS.items():
        values = session.columns.get(name)
        if values is not None and steady.any() and (values[steady] > 0).all():
            yield figure, float(values[steady].mean())
    if (collections := _collections(session, steady)) is not None:
        yield "collections_per_1000_steps_count", collections
    on_device = [record.allocated_bytes for record in session.all(Memory)]
    on_host = [record.rss_bytes for record in session.all(ProcessMemory)]
    of_workers = [record.private_bytes for record in session.all(WorkerMemory)]
    for figure, readings in (
        ("device_memory_bytes", on_device),
        ("process_memory_bytes", on_host),
        ("workers_memory_bytes", of_workers),
    ):
        if readings:
            yield figure, float(median(readings))
    yield from _of_device(session)
    yield from _of_host(session)


def _collections(session: Session, steady: Mask) -> float | None:
    column: Int64 | None = session.phase_ns(Phase.GARBAGE_COLLECTION)
    if column is None or not steady.any():
        return None
    return 1000 * float((column[steady] > 0).mean())


def _of_device(session: Session) -> Iterator[tuple[str, float]]:
    use = device_use(session)
    if use is None:
        return
    if use.busy_frac is not None:
        yield "device_busy_frac", use.busy_frac
    if use.min_sm_clock_mhz is not None:
        yield "lowest_clock_mhz_count", use.min_sm_clock_mhz
    if use.throttle_frac is not None:
        yield "clocks_held_down_frac", max(use.throttle_frac.values(), default=0.0)
    if use.max_others_count is not None:
        yield "other_processes_count", use.max_others_count


def _of_host(session: Session) -> Iterator[tuple[str, float]]:
    """Yield how fast the host's counters rose from the first reading to the last."""
    readings = session.all(HostCounters)
    if len(readings) < 2 or readings[-1].step <= readings[0].step:
        return
    first, last = readings[0], readings[-1]
    steps, wall_ns = last.step - first.step, max(1, last.wall_ns - first.wall_ns)
    yield "cores_used_count", (last.cpu_ns - first.cpu_ns) / wall_ns
    for figure, counter, per in _COUNTERS:
        before, after = getattr(first, counter), getattr(last, counter)
        if before is not None and after is not None:
            yield figure, max(0, after - before) / (steps if per == "step" else wall_ns)
    clocks = [reading.core_mhz for reading in readings if reading.core_mhz is not None]
    if clocks:
        yield "core_clock_mhz_count", float(median(clocks))
    blocks = [reading.python_blocks for reading in readings if reading.python_blocks]
    if blocks:
        yield "python_objects_count", float(median(blocks))
