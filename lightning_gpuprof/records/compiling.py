"""Functions that torch.compile gave up."""

from collections.abc import Iterable

from msgspec import Struct

from lightning_gpuprof.records.code_place import CodePlace
from lightning_gpuprof.records.notes import last_noted
from lightning_gpuprof.records.schema import Note

LIMIT_NOTE = "compile_limit"
"""Notes of this name: torch.compile gave a function up."""


class CompileLimit(Struct, frozen=True):
    """A function that torch.compile compiles no more.

    Args:
        limit: Which of dynamo's limits was reached.
        count: That limit: how many compilations there are.
        reason: The guard that failed last, in dynamo's words; empty where it did not say.
        place: Where the function begins.
    """

    limit: str
    count: int
    reason: str
    place: CodePlace


def compile_limits(notes: Iterable[Note]) -> tuple[CompileLimit, ...]:
    """Return the functions that torch.compile gave up, each once."""
    noted = (last_noted([note], LIMIT_NOTE, CompileLimit) for note in notes)
    return tuple({one.place: one for one in noted if one is not None}.values())
