"""Comparisons as text for a terminal."""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace
from io import StringIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from lightning_gpuprof.analysis.compare.compare import Change
from lightning_gpuprof.analysis.trace.kernel_category import kernel_name
from lightning_gpuprof.findings.model import Finding
from lightning_gpuprof.units import shortened
from lightning_gpuprof.views.documents.compare import RunComparison
from lightning_gpuprof.views.documents.compare_several import COLUMNS, SeveralComparison, cells
from lightning_gpuprof.views.documents.compare_words import (
    NO_VALUES,
    answer,
    changed,
    counted,
    in_percent,
    least_ns,
    settings,
    shown,
    values,
    warnings,
)

TOP = 8


def render_comparison(found: RunComparison) -> str:
    """Return the comparison as lines."""
    return "\n".join(_lines(found)) + "\n"


def _lines(found: RunComparison) -> Iterator[str]:
    result = found.result
    yield f"base  {found.base.run} ({counted(found.base, result.base_steps)})"
    yield f"new   {found.new.run} ({counted(found.new, result.new_steps)})"
    yield ""
    yield answer(found)
    yield from notes(found)
    unit = "per sample" if result.per_sample else "per step"
    least = least_ns(found)
    yield from _table(f"STEP ({unit})", result.steps, 0.0)
    clock = ", host clock" if any(result.by_device) else ""
    yield from _table(f"PHASES (mean {unit}{clock})", result.phases, least, unit="_ns")
    yield from _traced("OPERATORS, own time", result.operators, found, least)
    kernels = [replace(row, name=kernel_name(row.name)) for row in result.kernels]
    yield from _traced("KERNELS", kernels, found, least)
    yield from _table("MEMORY", result.memory, 0.0)
    yield from _findings("FINDINGS GONE", found.gone)
    yield from _findings("FINDINGS NEW", found.appeared)
    yield from _values(found)


def notes(found: RunComparison) -> Iterator[str]:
    """Yield what to know before the figures are believed, and the settings that changed."""
    yield from (f"! {warning}" for warning in warnings(found))
    if (said := settings(found)) is not None:
        yield f"  {said}"


def _table(title: str, rows: Sequence[Change], least: float, *, unit: str = "") -> Iterator[str]:
    kept = changed(rows, least)
    if not kept:
        return
    yield f"\n{title}"
    yield f"  {'':<34}{'base':>12}{'new':>12}{'change':>10}"
    for row in kept:
        name = row.name if unit else row.name.removesuffix("_ns").removesuffix("_bytes")
        key = unit or row.name
        sides = [shown(key, value) for value in (row.base, row.new)]
        yield f"  {shortened(name, 32):<34}{sides[0]:>12}{sides[1]:>12}{in_percent(row):>10}"


def _traced(
    title: str, rows: Sequence[Change], found: RunComparison, least: float
) -> Iterator[str]:
    """Yield what is known of a few profiled steps only, and say so."""
    result = found.result
    if result.traced_steps is None:
        return
    steps = " and ".join(str(count) for count in result.traced_steps)
    of = f"per {'sample' if result.per_sample else 'step'}, of {steps} profiled steps"
    large = changed(rows, least)
    sure = [row for row in large if row.shown]
    yield from _table(f"{title} ({of})", sure[:TOP], least, unit="_ns")
    if len(sure) < len(large):
        yield (
            f"\n  {len(large) - len(sure)} differences of {title.split(',')[0].lower()} are less "
            f"than {steps} profiled steps can show"
        )


def _findings(title: str, findings: Sequence[Finding]) -> Iterator[str]:
    if findings:
        yield f"\n{title}"
    for finding in findings:
        yield f"  [{finding.severity.value}] {finding.id}: {finding.title}"


def _values(found: RunComparison) -> Iterator[str]:
    compared = values(found)
    yield f"\nVALUES (within {found.tolerance:g})" if compared else "\nVALUES"
    yield from (f"  {said}" for said in compared or [NO_VALUES])


WIDTH = 100
_RIGHT = ("median step", "samples/s", "peak memory")


def render_several(found: SeveralComparison) -> str:
    """Return the table and what to know of each run, as lines."""
    return "\n".join(_several_lines(found)) + "\n"


def _several_lines(found: SeveralComparison) -> Iterator[str]:
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
    yield from _several_table(found)
    for number, one in enumerate(found.comparisons, start=1):
        if said := list(notes(one)):
            yield f"\nRun {number}"
            yield from said
    yield "\nAll figures of one of them: " + shlex.join(
        ("lightning-gpuprof", "compare", found.base.run, found.comparisons[0].new.run)
    )


def _several_table(found: SeveralComparison) -> Iterator[str]:
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
