"""The report as text for a terminal: what a step takes, what holds it back, what to change."""

import os
import shlex
from collections.abc import Iterator
from io import StringIO
from typing import TextIO

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.text import Text

from lightning_gpuprof.findings.checks import focus, run_checks
from lightning_gpuprof.findings.model import Finding, Severity, When
from lightning_gpuprof.units import ascii_only, duration, quantity, spread
from lightning_gpuprof.views.console import console_tables
from lightning_gpuprof.views.console.console_rest import rest_table
from lightning_gpuprof.views.console.console_tables import grid
from lightning_gpuprof.views.documents.gpu_words import verdict
from lightning_gpuprof.views.documents.report import Report, load_report
from lightning_gpuprof.views.documents.report_words import (
    MOST_IN_FULL,
    headline,
    no_change,
    no_steps,
    of_which_steps,
    place,
    saving,
    step_lines,
    the_one,
)

WIDTH = 100
_STYLE = {"critical": "bold red", "warning": "yellow", "info": "cyan"}


def report(
    run: str | os.PathLike[str] = "lightning_logs",
    *,
    session: int | None = None,
    verbose: bool = False,
) -> str:
    """Give the report of a run as text: `print(report(trainer.log_dir))`.

    Args:
        run: A run's log dir, or a folder of them: then the newest.
        session: Which of the run's sessions; by default the last fit that recorded steps.
        verbose: Also all changes, evidence, phases, operators, slowest steps and rules that
            abstained.

    Returns:
        The lines that `lightning-gpuprof report` prints, without colours.

    Raises:
        RecordError: There is no run of ours, or none that can be read.
    """
    found = load_report(os.fspath(run), session=session, analyse=True)
    return render(found, verbose=verbose, color=False, unicode=True)


def render(
    report: Report, *, verbose: bool = False, color: bool = False, unicode: bool = True
) -> str:
    """Return the report as lines of at most 100 columns."""
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
    yield Text(f"{report.run}: {headline(report)}", style="bold")
    for notice in report.notices:
        yield Text(f"note: {notice}", style="dim")
    if results.steps is None:
        yield Text(f"\n{no_steps(report)}")
    else:
        yield from _step(report, verbose, "█" if unicode else "#")
    if (lines := console_tables.line_table(results)) is not None:
        yield _heading("AT WHICH LINES (sampled on the host in the first seconds of training)")
        yield lines
    tables = [*console_tables.operator_tables(results, verbose=verbose)]
    if (workers := console_tables.worker_table(results)) is not None:
        tables.insert(0, workers)
    tables.append(("THE REST", rest_table(results)))
    if verbose:
        tables += console_tables.verbose_tables(report)
    for title, table in tables:
        yield _heading(title)
        yield table
    yield from _next(report)


def _step(report: Report, verbose: bool, bar: str) -> Iterator[RenderableType]:
    results = report.results
    yield _heading("STEP TIME")
    for number, line in enumerate(step_lines(results)):
        yield _indented(line, style="dim" if number == 1 else "")
    yield _heading(f"WHERE A STEP GOES ({of_which_steps(report)}, host clock)")
    yield console_tables.phase_table(results, bar=bar, verbose=verbose)
    yield _heading("WHAT HOLDS IT BACK (by the saving you can count on, info last)")
    yield from _findings(report, verbose)
    if verbose and (first := focus(run_checks(results))) is not None:
        yield _indented(f"where to look next: {first.next}", style="italic")


def _findings(report: Report, verbose: bool) -> Iterator[RenderableType]:
    if not report.findings:
        known, said = verdict(report.results), no_change(report)
        nothing = "Nothing that these rules know. See --verbose for what they lacked."
        sure = known is not None and said is not None and said[0] == known[0]
        yield _indented(f"{known[0]}. {known[1]}" if known and sure else nothing)
    first, brief = the_one(report), False
    for number, finding in enumerate(report.findings, start=1):
        head = Text(f"{number}. [{finding.severity.value}]", style=_STYLE[finding.severity.value])
        yield Padding(head.append(f" {finding.title}", style="bold"), (0, 0, 0, 1))
        if number > MOST_IN_FULL and not verbose:
            brief = True
            continue
        yield grid(_rows(report, finding, finding is first, verbose), first="dim", indent=4)
        brief |= finding.severity is Severity.INFO and not verbose
    if brief:
        yield _indented("--verbose has the changes of all of them.")


def _rows(
    report: Report, finding: Finding, at_the_end: bool, verbose: bool
) -> Iterator[tuple[str, str | Text]]:
    info = finding.severity is Severity.INFO
    if info and not finding.saving_ns.high and not verbose:
        yield finding.id, finding.advice
        return
    yield finding.id, saving(finding, report.results)
    if info and not verbose:
        return
    if at_the_end and not verbose:
        yield "change", "the one to make now: see the end"
        return
    yield from _change(finding)
    if verbose:
        figures = [f"{_label(key)}: {quantity(key, n)}" for key, n in finding.evidence.items()]
        yield "evidence", ", ".join(figures)
    places = [at for where in finding.where if (at := place(where)) and at not in finding.title]
    if places:
        yield "where", ", ".join(places)


def _change(finding: Finding) -> Iterator[tuple[str, str | Text]]:
    """Yield what to do in words and as code: a line of code alone may say little."""
    yield "change", finding.advice
    if finding.change:
        yield "", Text(finding.change, style="green")


def _label(key: str) -> str:
    key = key.replace("_frac", " share")
    for unit in ("_ns", "_bytes", "_per_s", "_count"):
        key = key.removesuffix(unit)
    return key.replace("_", " ")


def _next(report: Report) -> Iterator[RenderableType]:
    step_ns = report.results.step_ns
    if not step_ns:
        return
    first = the_one(report)
    if (said := no_change(report)) is not None:
        yield _heading(said[0].upper())
        yield _indented(said[1])
    elif first is not None:
        rows = [("why", first.title), *_change(first)]
        line = next((where for where in first.where if where.file), None)
        if line is not None:
            rows.append(("where", place(line)))
        if first.saving_ns.high:
            rows.append(("expect", _expected(first, step_ns)))
        yield _heading("THE ONE CHANGE TO MAKE NOW")
        yield grid(rows, first="dim")
        yield Text(f"  check   lightning-gpuprof compare {shlex.quote(report.run)} NEW_RUN")
    yield Text(f"  look    tensorboard --logdir {shlex.quote(report.run)}   (PROFILE tab)")


def _expected(finding: Finding, step_ns: int) -> str:
    saving = finding.saving_ns
    if finding.when is not When.IN_STEPS:
        saved = spread(saving.low, saving.high)
        return f"{saved} less per step on average (a steady step: {duration(step_ns)})"
    low, high = step_ns - saving.high, step_ns - saving.low
    about = duration(step_ns - finding.likely_ns)
    return f"a step of {about} ({spread(low, high)}) instead of {duration(step_ns)}"


def _heading(text: str) -> Text:
    return Text(f"\n{text}", style="bold")


def _indented(text: str, style: str = "") -> Padding:
    return Padding(Text(text, style=style), (0, 0, 0, 2))
