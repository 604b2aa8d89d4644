"""What else is known of a session's steps: sizes of batches, memory, clocks, collections."""

from collections.abc import Iterator
from statistics import median

from lightning_gpuprof.analysis.run.device_use import device_use
from lightning_gpuprof.arrays import Int64, Mask
from lightning_gpuprof.records.facts import ProcessMemory, WorkerMemory
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.records.reader import Session
from lightning_gpuprof.records.schema import Memory

_COLUMNS = {
    "samples": "samples_per_batch_count",
    "numbers": "numbers_per_batch_count",
}


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
