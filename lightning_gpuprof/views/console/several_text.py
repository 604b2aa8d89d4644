"""Several runs against one base as text for a terminal."""

import shlex
from collections.abc import Iterator
from io import StringIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from lightning_gpuprof.views.console.compare_text import notes
from lightning_gpuprof.views.documents.compare_several import SeveralComparison
from lightning_gpuprof.views.documents.compare_words import counted
from lightning_gpuprof.views.documents.several_table import COLUMNS, cells

WIDTH = 100
_RIGHT = ("median step", "samples/s", "peak memory")


def render_several(found: SeveralComparison) -> str:
    """Return the table and what to know of each run, as lines."""
    return "\n".join(_lines(found)) + "\n"


def _lines(found: SeveralComparison) -> Iterator[str]:
    steps = found.comparisons[0].result.base_steps
    yield f"base  {found.base.run} ({counted(found.base, steps)})"
    for number, one in enumerate(found.comparisons, start=1):
        yield f"{number:<4}  {one.new.run} ({counted(one.new, one.result.new_steps)})"
    yield ""
    yield found.sentence
    if found.ends is not None:
        most, fewest = (f"run {number}" if number else "the base" for number in found.ends)
        yield f"Most samples per second: {most}. Fewest: {fewest}."
    yield ""
    yield from _table(found)
    for number, one in enumerate(found.comparisons, start=1):
        if said := list(notes(one)):
            yield f"\nRun {number}"
            yield from said
    yield "\nAll figures of one of them: " + shlex.join(
        ("lightning-gpuprof", "compare", found.base.run, found.comparisons[0].new.run)
    )


def _table(found: SeveralComparison) -> Iterator[str]:
    table = Table.grid(padding=(0, 2))
    for name in COLUMNS:
        table.add_column(justify="right" if name in _RIGHT else "left", overflow="fold")
    table.add_row(*COLUMNS)
    for number, (median, rate, sentence, phase, *rest) in enumerate(cells(found)):
        row = (median, rate, sentence, phase.replace(" ", "\n", 1), *rest)
        # As Text: a str would lose brackets as markup.
        table.add_row(str(number or "base"), *map(Text, row))
    stream = StringIO()
    Console(file=stream, width=WIDTH, force_jupyter=False, color_system=None).print(table)
    yield from (line.rstrip() for line in stream.getvalue().splitlines())
