"""A run's report as Markdown, for a pull request or a CI job's summary."""

from collections.abc import Iterator

from lightning_gpuprof.findings.model import Finding, Severity
from lightning_gpuprof.findings.usual_advice import not_worth_it_line
from lightning_gpuprof.units import duration, percent
from lightning_gpuprof.views.documents import report_words as words
from lightning_gpuprof.views.documents.report import Report
from lightning_gpuprof.views.text.blocks import block, code, plain, table

MOST_PLACES = 3
_INDENT = 4
"""Columns by which the body of a numbered entry is indented."""


def report_markdown(report: Report) -> str:
    """Return the report: the step, what holds it back, and its phases."""
    return "\n\n".join(_parts(report)) + "\n"


def _parts(report: Report) -> Iterator[str]:
    results = report.results
    yield f"## Profile of {code(report.run)}"
    yield plain(words.headline(report))
    if report.notices:
        yield "\n".join(f"- note: {plain(notice)}" for notice in report.notices)
    if results.steps is None:
        yield plain(words.no_steps(report))
        return
    yield "  \n".join(plain(line) for line in words.step_lines(results))
    yield "### What holds it back"
    if (said := words.no_change(report)) is not None:
        yield f"**{plain(said[0])}.** {plain(said[1])}".rstrip()
    for number, finding in enumerate(report.findings, start=1):
        yield from _finding(report, number, finding)
    if line := not_worth_it_line(results, report.findings):
        yield f"**Not worth it here** (of a step, at most): {plain(line)}"
    yield "### Where a step goes"
    yield _phases(report)


def _finding(report: Report, number: int, finding: Finding) -> Iterator[str]:
    marker = f"{number}. ".ljust(_INDENT)
    about = f"{code(finding.id)}, {finding.severity.value}"
    yield f"{marker}**{plain(finding.title)}** ({about})"
    brief = finding.severity is Severity.INFO and finding.saving_ns.high
    if number > words.MOST_IN_FULL or brief:
        return
    where = _where(finding)
    rows = [
        *([plain(words.saving(finding, report.results))] if finding.saving_ns.high else []),
        *([f"where: {where}"] if where else []),
        f"change: {plain(finding.advice)}",
    ]
    yield "\n".join(f"{' ' * _INDENT}- {row}" for row in rows)
    if finding.change:
        yield block(finding.change, indent=_INDENT)


def _where(finding: Finding) -> str:
    said: dict[str, str] = {}
    for one in finding.places:
        name, source = words.place_name(one), one.source if one.file else None
        if name and (source or name not in said):
            said[name] = code(name) + (f" ({code(source)})" if source else "")
    return ", ".join(list(said.values())[:MOST_PLACES])


def _phases(report: Report) -> str:
    phases = list(words.phase_rows(report.results))
    device = any(row.device_ns is not None for row in phases)
    header = ["phase", words.of_which_steps(report), "share", *["device, idle too"] * device]
    rows = [
        [
            "&emsp;" * row.part + (code if row.of_phase or row.part else plain)(row.name),
            duration(row.mean_ns),
            percent(row.frac),
            "" if row.device_ns is None else duration(row.device_ns),
        ][: len(header)]
        for row in phases
    ]
    return table(header, rows, right=range(1, len(header)))
