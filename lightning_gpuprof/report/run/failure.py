"""Why a run ran out of device memory, and which lines held the memory."""

import re
import shlex
from collections.abc import Iterator

import msgspec

from lightning_gpuprof.report.document import Figure, Figures, Section, Table, Text, Verdict
from lightning_gpuprof.report.load import Report
from lightning_gpuprof.report.memory_sections import site_table
from lightning_gpuprof.report.stored_analysis import NotPreparedError, read_snapshot
from lightning_gpuprof.units import size

FIRST_LINES = 3
_ASKED = re.compile(r"Tried to allocate ([\d.]+) (MiB|GiB)")
_CAPACITY = re.compile(r"total capacity of ([\d.]+) (MiB|GiB)")


def failure_section(report: Report) -> Section | None:
    """Return why the run ran out of device memory, and what to change; None if it did not.

    If there is a snapshot of the memory at that moment, its file and the lines that held most of
    the memory are named.
    """
    run = report.results
    error = run.end.error if run.end is not None else None
    if not error or "OutOfMemoryError" not in error:
        return None
    asked, capacity = _size_in(_ASKED, error), _size_in(_CAPACITY, error)
    batch_size = run.start.loader.batch_size if run.start.loader is not None else None
    title = "Out of memory"
    if asked is not None:
        title += f": {size(asked)} more did not fit"
        title += f" in {size(capacity)}" if capacity is not None else ""
    # A tensor larger than the device probably has a wrong shape: no batch size makes room for it.
    single = asked is not None and capacity is not None and asked > capacity
    sentence = "Halve the batch, and accumulate gradients over two to keep its effect."
    if single:
        sentence = (
            "One tensor is larger than the whole device: correct the shapes where it is made, at "
            "the end of the traceback."
        )
    change = None
    if batch_size is not None and batch_size > 1 and not single:
        change = (
            f"DataLoader(..., batch_size={batch_size // 2})\n"
            "Trainer(..., accumulate_grad_batches=2)"
        )
    ended = Verdict("failed", "This run ended", title, sentence, change=change)
    return Section("failure", "", "first", (ended, *_snapshot(report)))


def _snapshot(report: Report) -> Iterator[Figures | Table | Text]:
    path = report.oom_snapshot
    if path is None:
        return
    yield Figures((Figure("oom_snapshot", "snapshot of the memory", path, "code"),))
    try:
        devices = read_snapshot(path, report.fs)
    except (NotPreparedError, msgspec.ValidationError, OSError):
        yield Text((shlex.join(("lightning-gpuprof", "analyze", path)),), "command")
        return
    for device in devices[:1]:
        if device.peak.sites:
            yield site_table("oom_sites", device.peak.sites, most=FIRST_LINES)


def _size_in(pattern: re.Pattern[str], text: str) -> float | None:
    match = pattern.search(text)
    return float(match[1]) * (2**30 if match[2] == "GiB" else 2**20) if match else None
