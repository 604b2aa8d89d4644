"""The report as text for a terminal: what a step takes, what holds it back, what to change."""

import shlex
from collections.abc import Iterator
from io import StringIO
from typing import TextIO

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from lightning_gpuprof.findings.checks import focus, run_checks
from lightning_gpuprof.findings.model import Finding, Severity, When
from lightning_gpuprof.units import ascii_only, duration, percent, quantity, spread
from lightning_gpuprof.views.console import console_rest, console_tables
from lightning_gpuprof.views.documents.report import Report
from lightning_gpuprof.views.documents.report_words import (
    MOST_IN_FULL,
    headline,
    no_change,
    no_steps,
    of_which_steps,
    other_fits,
    place,
    saving,
    the_one,
)

WIDTH = 100
_STYLE = {"critical": "bold red", "warning": "yellow", "info": "cyan"}


def render(
    report: Report, *, verbose: bool = False, color: bool = False, unicode: bool = True
) -> str:
    """Return the report as lines of at most 100 columns.

    Args:
        report: From `load_report`.
        verbose: Also every finding's change and evidence, the slowest steps, every named part,
            and why rules had nothing to say.
        color: Use ANSI colours.
        unicode: Draw with characters beyond ASCII.
    """
    stream = StringIO()
    console = Console(
        file=stream,
        width=WIDTH,
        force_terminal=color,
        force_jupyter=False,  # there rich would display each part itself, and write nothing
        color_system="standard" if color else None,
        highlight=False,
        legacy_windows=False,
    )
    for part in _parts(report, verbose, unicode):
        # Bare text is left to the terminal to wrap: a path or command stays one line to copy.
        console.print(part, soft_wrap=isinstance(part, Text))
    text = "\n".join(line.rstrip() for line in stream.getvalue().splitlines()) + "\n"
    return text if unicode else ascii_only(text)


def render_for(report: Report, stream: TextIO, *, verbose: bool = False) -> str:
    """Return the report as it suits a stream: coloured on a terminal, ASCII where it must be."""
    encoding = (getattr(stream, "encoding", None) or "ascii").lower()
    return render(
        report, verbose=verbose, color=stream.isatty(), unicode=encoding.startswith("utf")
    )


def _parts(report: Report, verbose: bool, unicode: bool) -> Iterator[RenderableType]:
    results = report.results
    lines = console_tables.line_table(results)
    yield Text(f"{report.run}: {headline(report)}", style="bold")
    for notice in (other_fits(report), *report.notices):
        if notice is not None:
            yield Text(f"note: {notice}", style="dim")
    if results.steps is None:
        yield Text(f"\n{no_steps(report)}")
    else:
        yield _heading("STEP TIME")
        yield _indented(console_tables.step_lines(results))
        device = "; the device's idle time included" if results.device_time else ""
        yield _heading(f"WHERE A STEP GOES ({of_which_steps(report)}, host clock{device})")
        bar = "█" if unicode else "#"
        yield _indented(console_tables.phase_table(results, bar=bar, verbose=verbose))
        yield _heading("WHAT HOLDS IT BACK (by the saving you can count on, info last)")
        yield from _findings(report, verbose)
        if verbose and (first := focus(run_checks(results))) is not None:
            yield _indented(Text(f"where to look next: {first.next}", style="italic"))
    if lines is not None:
        yield _heading("AT WHICH LINES (sampled on the host in the first seconds of training)")
        yield _indented(lines)
    workers, seen = console_tables.worker_table(results), results.worker_lines
    if workers is not None and seen is not None:
        looked = (
            f"{seen.whole} samples in {seen.processes} worker process{'es' * (seen.processes != 1)}"
        )
        idle = f"waiting for work in {percent(seen.waiting_frac)}"
        yield _heading(f"IN THE LOADER'S WORKERS ({looked}, {idle})")
        yield _indented(workers)
    yield from console_tables.operator_tables(results, verbose=verbose)
    yield _heading("THE REST")
    yield _indented(console_rest.rest_table(results))
    if verbose:
        yield from console_tables.verbose_parts(results, report.abstained, report.silent)
    yield from _next(report)


def _findings(report: Report, verbose: bool) -> Iterator[RenderableType]:
    if not report.findings:
        yield _indented(Text("Nothing that these rules know. See --verbose for what they lacked."))
    first, shortened = the_one(report), False
    for number, finding in enumerate(report.findings, start=1):
        yield _indented(_finding_head(number, finding), 1)
        if number > MOST_IN_FULL and not verbose:
            shortened = True
            continue
        body = _finding_body(report, finding, at_the_end=finding is first, verbose=verbose)
        yield _indented(body, 4)
        shortened |= finding.severity is Severity.INFO and not verbose
    if shortened:
        yield _indented(Text("--verbose has the changes of all of them."))


def _finding_head(number: int, finding: Finding) -> Table:
    head = Text(f"[{finding.severity.value}]", style=_STYLE[finding.severity.value])
    table = Table.grid(padding=(0, 1))
    table.add_row(f"{number}.", head.append(f" {finding.title}", style="bold"))
    return table


def _finding_body(report: Report, finding: Finding, *, at_the_end: bool, verbose: bool) -> Table:
    table = _grid()
    if finding.severity is Severity.INFO and not finding.saving_ns.high and not verbose:
        table.add_row(finding.id, Text(finding.advice))
        return table
    table.add_row(finding.id, saving(finding, report.results.step_ns))
    if finding.severity is Severity.INFO and not verbose:
        return table
    if at_the_end and not verbose:
        table.add_row("change", "the one to make now: see the end")
        return table
    _add_change(table, finding)
    if verbose:
        evidence = finding.evidence.items()
        shown = [f"{_label(key)}: {quantity(key, value)}" for key, value in evidence]
        table.add_row("evidence", ", ".join(shown))
    places = [at for where in finding.where if (at := place(where))]
    places = [at for at in places if at not in finding.title]
    if places:
        table.add_row("where", Text(", ".join(places)))
    return table


def _add_change(table: Table, finding: Finding) -> None:
    """Add what to do, and that as code: a line of code alone may say little."""
    # As Text: source lines and paths hold brackets, which a str would lose as markup.
    table.add_row("change", Text(finding.advice))
    if finding.change:
        table.add_row("", Text(finding.change, style="green"))


def _label(key: str) -> str:
    key = key.replace("_frac", " share")
    for unit in ("_ns", "_bytes", "_per_s", "_count"):
        key = key.removesuffix(unit)
    return key.replace("_", " ")


def _next(report: Report) -> Iterator[RenderableType]:
    step_ns = report.results.step_ns
    if not step_ns:
        return
    if (said := no_change(report)) is not None:
        yield _heading(said[0].upper())
        yield _indented(Text(said[1]))
        yield _look(report)
        return
    first = the_one(report)
    assert first is not None
    table = _grid()
    table.add_row("why", Text(first.title))
    _add_change(table, first)
    line = next((where for where in first.where if where.file), None)
    if line is not None and (at := place(line)):
        table.add_row("where", Text(at))
    if first.saving_ns.high:
        table.add_row("expect", _expected(first, step_ns))
    yield _heading("THE ONE CHANGE TO MAKE NOW")
    yield _indented(table)
    yield Text(f"  check   lightning-gpuprof compare {shlex.quote(report.run)} NEW_RUN")
    yield _look(report)


def _look(report: Report) -> Text:
    return Text(f"  look    tensorboard --logdir {shlex.quote(report.run)}   (PROFILE tab)")


def _expected(finding: Finding, step_ns: int) -> str:
    saving = finding.saving_ns
    if finding.when is not When.IN_STEPS:
        saved = spread(saving.low, saving.high)
        return f"{saved} less per step on average (a steady step: {duration(step_ns)})"
    low, high = step_ns - saving.high, step_ns - saving.low
    return f"a step of {spread(low, high)} instead of {duration(step_ns)}"


def _grid() -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    return table


def _heading(text: str) -> Text:
    return Text(f"\n{text}", style="bold")


def _indented(part: RenderableType, columns: int = 2) -> Padding:
    return Padding(part, (0, 0, 0, columns))
