"""The report as text for a terminal: what a step takes, what holds it back, what to change."""

import shlex
from collections.abc import Iterator
from io import StringIO
from typing import TextIO

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from lightning_gpuprof.analysis.compare.bootstrap import MIN_BLOCKS
from lightning_gpuprof.analysis.run.worker_lines import worker_lines
from lightning_gpuprof.findings.checks import focus, run_checks
from lightning_gpuprof.findings.model import Finding, Severity, When
from lightning_gpuprof.findings.runner import MIN_SAVING_FRAC
from lightning_gpuprof.findings.worker_places import processes
from lightning_gpuprof.records.schema import UNMARKED_STEPS
from lightning_gpuprof.units import ascii_only, duration, percent, quantity, spread
from lightning_gpuprof.views.console import console_plan, console_tables
from lightning_gpuprof.views.documents.report import Report
from lightning_gpuprof.views.documents.together import together
from lightning_gpuprof.views.documents.trace_notices import kept_analyses

WIDTH = 100
MOST_IN_FULL = 6
"""Findings after these are titles alone unless --verbose: the first ones are worth the time."""
MOSTLY = 0.5
"""Where findings leave less of the step than this, the rest of it is not worth a word."""
_STYLE = {"critical": "bold red", "warning": "yellow", "info": "cyan"}
_DOING = {"validate": "validation", "test": "testing", "predict": "prediction"}
"""What a session does that trains nothing."""


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
    yield Text(_headline(report), style="bold")
    kept = kept_analyses(report.run, results) if verbose else ()
    for notice in (*report.notices, *kept):
        yield Text(f"note: {notice}", style="dim")
    if results.steps is None:
        yield Text(f"\n{_no_steps(report)}")
    else:
        yield _heading("STEP TIME")
        yield _indented(console_tables.step_lines(results))
        device = "; the device's idle time included" if results.device_time else ""
        yield _heading(f"WHERE A STEP GOES (mean per steady step, host clock{device})")
        bar = "█" if unicode else "#"
        yield _indented(console_tables.phase_table(results, bar=bar, verbose=verbose))
        yield _heading("WHAT HOLDS IT BACK (by the saving you can count on, info last)")
        yield from _findings(report, verbose)
        yield from _unexplained(report, lines is not None)
        if verbose and (first := focus(run_checks(results))) is not None:
            yield _indented(Text(f"where to look next: {first.next}", style="italic"))
    if lines is not None:
        yield _heading("AT WHICH LINES (sampled on the host in the first seconds of training)")
        yield _indented(lines)
    workers, seen = console_tables.worker_table(results), worker_lines(results.notes)
    if workers is not None and seen is not None:
        looked = f"{seen.whole} samples in {processes(seen.processes)}"
        idle = f"waiting for work in {percent(seen.waiting_frac)}"
        yield _heading(f"IN THE LOADER'S WORKERS ({looked}, {idle})")
        yield _indented(workers)
    yield from console_tables.operator_tables(results, verbose=verbose)
    yield _heading("THE REST")
    yield _indented(console_tables.rest_table(results))
    if verbose:
        yield from console_plan.plan_parts(report)
        yield from console_tables.verbose_parts(results, report.abstained, report.silent)
    yield from _next(report)


def _headline(report: Report) -> str:
    results = report.results
    status = {"open": "no closing record: live, or killed"}.get(results.status, results.status)
    ranks = f", {results.start.world_size} ranks" if results.start.world_size > 1 else ""
    session = f", session {results.start.session}" if len(results.sessions) > 1 else ""
    count = results.steps.count if results.steps else 0
    steps = "1 step" if count == 1 else f"{count} steps"
    if results.end is not None and any(kind.where == UNMARKED_STEPS for kind in results.outside):
        steps = f"{results.end.steps} steps ({count} timed by phase)"
    return (
        f"{report.run}: {results.start.stage}{session}, {status}{ranks}, "
        f"{steps} in {duration(results.wall.wall_ns)}"
    )


def _findings(report: Report, verbose: bool) -> Iterator[RenderableType]:
    if not report.findings:
        yield _indented(Text("Nothing that these rules know. See --verbose for what they lacked."))
    the_one, shortened = _the_one(report), False
    for number, finding in enumerate(report.findings, start=1):
        yield _indented(_finding_head(number, finding), 1)
        if number > MOST_IN_FULL and not verbose:
            shortened = True
            continue
        body = _finding_body(report, finding, at_the_end=finding is the_one, verbose=verbose)
        yield _indented(body, 4)
        shortened |= finding.severity is Severity.INFO and not verbose
    if shortened:
        yield _indented(Text("--verbose has the changes of all of them."))


def _unexplained(report: Report, lines: bool) -> Iterator[RenderableType]:
    """Say how much of the step no finding speaks of: the largest cause may be one no rule knows.

    Args:
        report: The report.
        lines: Whether lines are shown: phases that call none of the program's have none.
    """
    found = together(report.results, report.findings)
    if found is None or found.step_low_ns < MOSTLY * found.step_ns:
        return
    shown = "WHERE A STEP GOES and AT WHICH LINES show" if lines else "WHERE A STEP GOES shows"
    step, left = duration(found.step_ns), duration(found.step_low_ns)
    if not found.saving_high_ns:
        yield _indented(
            Text(f"What these save lies between steps. {shown} where a step's {step} go.")
        )
        return
    saved = duration(found.saving_high_ns)
    text = f"All of these together save at most {saved} of the step's {step}. "
    yield _indented(Text(f"{text}{shown} where the other {left} go."))


def _the_one(report: Report) -> Finding | None:
    """Return the finding whose change is proposed at the end, where there is one."""
    steps, first = report.results.steps, next(iter(report.findings), None)
    warm_up = steps is not None and steps.basis == "all"
    if first is None or warm_up or not report.results.step_ns or not first.worth_a_change:
        return None
    return first


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
    table.add_row(finding.id, _saving(finding, report.results.step_ns))
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
    places = [place for where in finding.where if (place := console_tables.place(where))]
    places = [place for place in places if place not in finding.title]
    if places:
        table.add_row("where", Text(", ".join(places)))
    return table


def _add_change(table: Table, finding: Finding) -> None:
    """Add what to do, and that as code: a line of code alone may say little."""
    # As Text: source lines and paths hold brackets, which a str would lose as markup.
    table.add_row("change", Text(finding.advice))
    if finding.change:
        table.add_row("", Text(finding.change, style="green"))


def _saving(finding: Finding, step_ns: int | None) -> str:
    saving = finding.saving_ns
    if saving.high == 0:
        return "no time is claimed as saved"
    share = ""
    if step_ns and finding.when is not When.BETWEEN:  # none of it is a share of a steady step
        least = f"{percent(saving.low / step_ns)} to " if saving.low else ""
        share = f" ({least}{percent(saving.high / step_ns)})"
    return (
        f"saves {spread(saving.low, saving.high)} per step{share}, "
        f"confidence {finding.confidence:.0%}"
    )


def _label(key: str) -> str:
    key = key.replace("_frac", " share")
    for unit in ("_ns", "_bytes", "_per_s", "_count"):
        key = key.removesuffix(unit)
    return key.replace("_", " ")


def _next(report: Report) -> Iterator[RenderableType]:
    step_ns = report.results.step_ns
    if not step_ns:
        return
    doing = _DOING.get(report.results.start.stage)
    again = " to judge." if doing else ": train longer and look again."
    if report.results.steps is not None and report.results.steps.basis == "all":
        yield _heading("TOO SHORT TO SAY WHAT TO CHANGE")
        yield _indented(Text(f"Only warm-up steps were recorded, too few{again}"))
        return
    first = _the_one(report)
    count = report.results.steps.dur.count if report.results.steps else 0
    if first is None and count < MIN_BLOCKS:
        yield _heading("TOO SHORT TO SAY WHAT TO CHANGE")
        steps = "1 steady step is" if count == 1 else f"{count} steady steps are"
        yield _indented(Text(f"{steps} too few{again}"))
        return
    if first is None:
        yield _heading(f"NOTHING HERE HOLDS {(doing or 'training').upper()} BACK MUCH")
        yield _indented(Text(_instead(report, step_ns)))
        return
    table = _grid()
    table.add_row("why", Text(first.title))
    _add_change(table, first)
    line = next((where for where in first.where if where.file), None)
    if line is not None and (place := console_tables.place(line)):
        table.add_row("where", Text(place))
    if first.saving_ns.high:
        table.add_row("expect", _expected(first, step_ns))
    yield _heading("THE ONE CHANGE TO MAKE NOW")
    yield _indented(table)
    run = shlex.quote(report.run)
    yield Text(f"  check   lightning-gpuprof compare {run} NEW_RUN")
    yield Text(f"  look    tensorboard --logdir {run}   (PROFILE tab)")


def _no_steps(report: Report) -> str:
    start = report.results.start
    if start.timer or report.results.status == "exception":
        step = "batch" if start.stage in _DOING else "training step"
        return f"No {step} was recorded in this session: nothing to break down."
    return "Steps were not timed: neither GpuProfCallback nor PhaseTimer was among the callbacks."


def _expected(finding: Finding, step_ns: int) -> str:
    saving = finding.saving_ns
    if finding.when is not When.IN_STEPS:
        saved = spread(saving.low, saving.high)
        return f"{saved} less per step on average (a steady step: {duration(step_ns)})"
    low, high = step_ns - saving.high, step_ns - saving.low
    return f"a step of {spread(low, high)} instead of {duration(step_ns)}"


def _instead(report: Report, step_ns: int) -> str:
    said = "What is found here is small, or not sure to save time. "
    sure = [f for f in report.findings if f.saving_ns.low >= MIN_SAVING_FRAC * step_ns]
    if sure:
        low, high = sure[0].saving_ns.low / step_ns, sure[0].saving_ns.high / step_ns
        said += f"The largest sure gain is {sure[0].id} ({percent(low)} to {percent(high)}). "
    first = focus(run_checks(report.results))
    return said + (f"Where to look next: {first.next}." if first else "")


def _grid() -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    return table


def _heading(text: str) -> Text:
    return Text(f"\n{text}", style="bold")


def _indented(part: RenderableType, columns: int = 2) -> Padding:
    return Padding(part, (0, 0, 0, columns))
