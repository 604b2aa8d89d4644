"""The report as text for a terminal: the first screen answers, the rest follows."""

import os
import re
import shlex
from collections.abc import Iterator
from io import StringIO
from typing import TextIO
from urllib.parse import quote

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.text import Text

from lightning_gpuprof.findings.model import Finding, Severity, When
from lightning_gpuprof.findings.questions import answer_questions, first_to_look_at
from lightning_gpuprof.findings.usual_advice import not_worth_it_line
from lightning_gpuprof.units import ascii_only, duration, interval_text, quantity, shortened
from lightning_gpuprof.views.console import console_tables
from lightning_gpuprof.views.console.console_rest import rest_rows
from lightning_gpuprof.views.console.console_tables import grid
from lightning_gpuprof.views.documents import report_words as words
from lightning_gpuprof.views.documents.gpu_words import limit_line
from lightning_gpuprof.views.documents.report import Report
from lightning_gpuprof.views.text.terminal import WIDTH, columns, is_colored

SCREEN = 24
"""Lines of the smallest terminal."""
LEAST_PHASES = 4
MOST_NOTES = 2
_STYLE = {"critical": "bold red", "warning": "yellow", "info": "cyan"}


def render(
    report: Report,
    *,
    verbose: bool = False,
    color: bool = False,
    unicode: bool = True,
    width: int = WIDTH,
    html: bool = False,
) -> str:
    """Return the report as lines of at most so many columns, or as they look, in HTML."""
    console = Console(
        file=StringIO(),
        width=width,
        force_terminal=color,
        force_jupyter=False,  # there rich would display each part itself, and write nothing
        color_system="standard" if color else None,
        no_color=not color,  # whatever the environment says: who calls has asked it
        record=True,
        highlight=False,
        legacy_windows=False,
    )
    _print(console, report, verbose, "█" if unicode else "#")
    if html:
        return console.export_html(inline_styles=True, code_format="<pre>{code}</pre>")
    text = console.export_text(styles=color)
    text = "\n".join(line.rstrip() for line in text.splitlines()) + "\n"
    return text if unicode else ascii_only(text)


def _print(console: Console, report: Report, verbose: bool, bar: str) -> None:
    def show(parts: Iterator[RenderableType]) -> int:
        height = 0
        for part in parts:
            # Bare text is left to the terminal to wrap: a path or command stays one line to copy.
            console.print(part, soft_wrap=isinstance(part, Text))
            height += len(console.render_lines(part, pad=False))
        return height

    width = console.width
    left = SCREEN - 2 - show(_answer(report, width))
    if (steps := report.results.steps) is not None:
        step, most = duration(steps.dur.mean_ns), None if verbose else max(LEAST_PHASES, left)
        head = _heading(f"WHERE A STEP GOES ({words.of_which_steps(report)}, host clock): {step}")
        table = console_tables.phase_table(report.results, bar=bar, most=most, width=width)
        show(iter((head, table)))
    show(_rest(report, verbose, width))


def render_for(report: Report, stream: TextIO, *, verbose: bool = False) -> str:
    """Return the report as it suits a stream: its width and colours, ASCII where it must be."""
    encoding = (getattr(stream, "encoding", None) or "ascii").lower()
    return render(
        report,
        verbose=verbose,
        color=is_colored(stream),
        unicode=encoding.startswith("utf"),
        width=columns(stream),
    )


def _answer(report: Report, width: int) -> Iterator[RenderableType]:
    """Yield what limits the run, and what to do about it first."""
    yield Text(f"{report.run}: {words.session_line(report)}", style="bold")
    for notice in report.notices[:MOST_NOTES]:
        yield _indented(shortened(f"note: {notice}", 2 * width), "dim", by=0)
    if (limit := limit_line(report.results)) is not None:
        yield _indented(limit, "bold", by=0)
    if report.results.steps is None:
        yield Text(f"\n{words.no_steps(report)}")
    elif (said := words.no_change(report)) is not None:
        yield _heading(said[0].upper())
        yield _indented(said[1])
    elif (first := words.the_one(report)) is not None:
        yield _heading("FIX FIRST")
        yield _indented(first.title, _STYLE[first.severity.value])
        yield grid(_first(report, first, width), first="dim")


def _first(report: Report, finding: Finding, width: int) -> Iterator[tuple[str, str | Text]]:
    line = next((where for where in finding.places if where.file), None)
    if line is not None:
        yield "where", shortened(words.place(line), width - len("  where   "))
    yield from _change(finding)
    if finding.saving_ns.high:
        yield "gain", _gain(finding, report.results.step_ns or 0)


def _gain(finding: Finding, step_ns: int) -> str:
    saved, sure = finding.saving_ns, words.sureness(finding)
    if finding.when is not When.IN_STEPS:
        less = interval_text(saved.low, saved.high)
        return f"{less} per step on average (a steady step: {duration(step_ns)}), {sure}"
    about = duration(step_ns - finding.likely_ns)
    band = interval_text(step_ns - saved.high, step_ns - saved.low)
    return f"a step of {about} ({band}) instead of {duration(step_ns)}, {sure}"


def _rest(report: Report, verbose: bool, width: int) -> Iterator[RenderableType]:
    results = report.results
    for notice in report.notices:
        if notice in report.notices[MOST_NOTES:] or len(notice) > 2 * width - len("note: "):
            yield _indented(f"note: {notice}", "dim", by=0)
    if results.steps is not None:
        yield from _findings(report, verbose)
        yield _heading("STEP TIME")
        for line in words.step_lines(results):
            yield _indented(line)
    for title, table in console_tables.tables(report, verbose=verbose):
        yield _heading(title)
        yield table
    yield _heading("THE REST")
    yield grid(rest_rows(results), first="dim")
    folder, name = os.path.split(report.run.rstrip("/"))
    if name in ("", ".", ".."):
        folder, name = os.path.split(os.path.abspath(report.run))
    yield Text("")
    if words.the_one(report) is not None:
        yield Text(f"  check   lightning-gpuprof compare {shlex.quote(report.run)} NEW_RUN")
    yield Text(f"  look    tensorboard --logdir {shlex.quote(folder or '.')}")
    yield Text(f"  open    http://localhost:6006/#gpuprof&p.gpuprof.run={quote(name)}")


def _findings(report: Report, verbose: bool) -> Iterator[RenderableType]:
    first, brief = words.the_one(report), False
    told = first is not None and not verbose
    if report.findings[told:]:
        yield _heading(f"WHAT {'ELSE ' * told}HOLDS IT BACK (by the saving to count on, info last)")
    for number, finding in enumerate(report.findings[told:], start=1 + told):
        head = Text(f"{number}. [{finding.severity.value}]", style=_STYLE[finding.severity.value])
        yield Padding(head.append(f" {finding.title}", style="bold"), (0, 0, 0, 1))
        if number > words.MOST_IN_FULL and not verbose:
            brief = True
            continue
        yield grid(_rows(report, finding, verbose), first="dim", indent=4)
        brief |= finding.severity is Severity.INFO and not verbose
    if brief:
        yield _indented("--verbose has the changes of all of them.")
    if line := not_worth_it_line(report.results, report.findings):
        yield _heading("NOT WORTH IT HERE (of a step, at most)")
        yield _indented(line)
    answers = answer_questions(report.results, report.findings, report.abstained)
    if verbose and (first_answer := first_to_look_at(answers)) is not None:
        yield _indented(f"where to look next: {first_answer.next}", style="italic")


def _rows(report: Report, finding: Finding, verbose: bool) -> Iterator[tuple[str, str | Text]]:
    brief = finding.severity is Severity.INFO and not verbose
    advised = brief and not finding.saving_ns.high
    yield finding.id, finding.advice if advised else words.saving(finding, report.results)
    if brief:
        return
    yield from _change(finding)
    if verbose:
        figures = [f"{_label(key)}: {quantity(key, n)}" for key, n in finding.evidence.items()]
        yield "evidence", ", ".join(figures)
    places = filter(None, map(words.place, finding.places))
    if where := ", ".join(at for at in places if at not in finding.title):
        yield "where", where


def _change(finding: Finding) -> Iterator[tuple[str, str | Text]]:
    """Yield what to do in words and as code: a line of code alone may say little."""
    yield "change", finding.advice
    if finding.change:
        yield "", Text(finding.change, style="green")


def _label(key: str) -> str:
    plain = re.sub(r"_(ns|bytes|per_s|count)$", "", key.replace("_frac", " share"))
    return plain.replace("_", " ")


def _heading(text: str) -> Padding:
    return Padding(Text(text, style="bold"), (1, 0, 0, 0))


def _indented(text: str, style: str = "", by: int = 2) -> Padding:
    return Padding(Text(text, style=style), (0, 0, 0, by))
