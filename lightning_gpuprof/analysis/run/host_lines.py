"""Which lines of the program the training thread was seen at, and what each takes of a step."""

from collections.abc import Iterable

from lightning_gpuprof.records.lines import HOST_NOTE, HostLines, LineCount, ThreadLoad, ThreadUse
from lightning_gpuprof.records.notes import last_noted
from lightning_gpuprof.records.schema import Note

NOTE = HOST_NOTE
__all__ = ["NOTE", "HostLines", "LineCount", "ThreadLoad", "ThreadUse", "host_lines"]


def host_lines(notes: Iterable[Note]) -> HostLines | None:
    """Return the last samples noted; None where none were taken."""
    lines = last_noted(notes, NOTE, HostLines)
    return lines if lines is not None and lines.whole else None
