"""Shows a document as GitHub-flavoured Markdown, for a pull request or a CI job's summary.

Sections of the first screen are open, those of the page are folded, and charts are left out.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape

from lightning_gpuprof.report.document import (
    Bars,
    Column,
    Document,
    Figures,
    FindingCard,
    Part,
    Place,
    Section,
    Table,
    Text,
    TrialCommand,
    Value,
    Verdict,
)
from lightning_gpuprof.report.format import column_decimals, place_name, shown

MOST_IN_FULL = 6
"""Of findings after this many only the titles are shown."""
MOST_PLACES = 3
HEADINGS = {"comparison": "Comparison of", "trial": "Trials of"}
LEFT = ("text", "code", "place", "state")
_INDENT = 4
"""Columns by which the body of a numbered entry is indented."""
_MARKUP = re.compile(r"[\\`*\[\]<~$]|^>|(?<![^\W_])_|_(?![^\W_])")
_LINKS = re.compile(r"[@#](?=\w)")


def render(document: Document, *, verbose: bool = False) -> str:
    """Return the document as Markdown; with `verbose` all of its sections."""
    return "\n\n".join(_blocks(document, verbose)) + "\n"


def _blocks(document: Document, verbose: bool) -> Iterator[str]:
    subject = document.subject
    heading = HEADINGS.get(subject.kind, "Profile of")
    yield f"## {heading} {code(subject.path or subject.name)}"
    yield plain(subject.line)
    numbers = {id(finding): at for at, finding in enumerate(document.findings, start=1)}
    for section in document.sections:
        if verbose or section.detail != "verbose":
            yield from _section(section, numbers, verbose=verbose)


def _section(section: Section, numbers: Mapping[int, int], *, verbose: bool) -> Iterator[str]:
    blocks = [
        block for part in section.body for block in _part(part, numbers, verbose=verbose) if block
    ]
    if not blocks:
        return
    if section.note:
        blocks.insert(0, plain(section.note))
    if section.detail == "first" or not section.title:
        yield from [f"### {plain(section.title)}"] if section.title else []
        yield from blocks
        return
    yield f"<details><summary>{escape(section.title)}</summary>"
    yield from blocks
    yield "</details>"


def _part(part: Part, numbers: Mapping[int, int], *, verbose: bool) -> Iterator[str]:
    if isinstance(part, Verdict):
        yield from _verdict(part)
    elif isinstance(part, Figures):
        yield from _title(part.title)
        yield "\n".join(_figures(part))
    elif isinstance(part, Text):
        yield _text(part)
    elif isinstance(part, Table):
        rows = part.rows if verbose or part.first_rows is None else part.rows[: part.first_rows]
        if rows:
            yield from _title(part.title)
            yield _table(part.columns, rows, verbose=verbose)
            yield plain(part.note or "")
    elif isinstance(part, Bars):
        yield from _title(part.title)
        yield _bars(part)
        yield plain(part.note or "")
    elif isinstance(part, FindingCard):
        yield from _finding(part, numbers[id(part)], verbose=verbose)


def _title(title: str | None) -> list[str]:
    return [f"**{plain(title)}**"] if title else []


def _verdict(verdict: Verdict) -> Iterator[str]:
    yield f"**{plain(verdict.label)}: {plain(verdict.title)}**"
    where = f"Where: {_place(verdict.place)}." if verdict.place is not None else ""
    gain = f"Gain: {plain(verdict.gain)}." if verdict.gain else ""
    yield "  \n".join(filter(None, [plain(verdict.sentence), where, gain]))
    if verdict.change and verdict.finding is None:  # otherwise the finding below shows the change
        yield block(verdict.change)


def _figures(part: Figures) -> Iterator[str]:
    for figure in part.figures:
        value = shown(figure.value, figure.unit)
        text = code(value) if figure.unit == "code" and figure.value else plain(value)
        note = f" ({plain(figure.note)})" if figure.note else ""
        yield f"- {plain(figure.label)}: {f'**{text}**' if part.large else text}{note}"


def _text(text: Text) -> str:
    if text.style in ("command", "code"):
        language = "sh" if text.style == "command" else "python"
        return block("\n".join(text.lines), language=language)
    if text.style in ("note", "warning"):
        return "\n".join(f"- note: {plain(sentence)}" for sentence in text.lines)
    mark = "**" if text.style == "strong" else ""
    return "  \n".join(f"{mark}{plain(sentence)}{mark}" for sentence in text.lines)


def _table(columns: Sequence[Column], rows: Sequence[Mapping[str, Value]], *, verbose: bool) -> str:
    filled = [
        column
        for column in columns
        if (verbose or column.detail != "verbose")
        and any(row.get(column.key) is not None for row in rows)
    ]
    right = [at for at, column in enumerate(filled) if column.unit not in LEFT]
    decimals = [column_decimals((row.get(c.key) for row in rows), c.unit) for c in filled]
    cells = [list(_cells(row, filled, decimals)) for row in rows]
    return table([plain(column.label) for column in filled], cells, right=right)


def _cells(
    row: Mapping[str, Value], columns: Sequence[Column], decimals: Sequence[int | None]
) -> Iterator[str]:
    texts = [at for at, column in enumerate(columns) if column.unit == "text"]
    note = row.get("note")
    for at, column in enumerate(columns):
        value = row.get(column.key)
        text = _cell(value, column, decimals[at])
        if at == 0 and row.get("level"):
            text = f"&emsp;{text}"
        if note and texts and at == texts[-1]:
            text = f"{text} {plain(str(note))}"
        yield text


def _cell(value: Value, column: Column, decimals: int | None) -> str:
    if value is None:
        return "" if column.unit in LEFT else shown(value, column.unit)
    if isinstance(value, Place):
        return _place(value)
    text = shown(value, column.unit, decimals)
    return code(text) if column.unit == "code" and text else plain(text)


def _place(place: Place) -> str:
    name = place_name(place)
    if place.file is None or not place.source:
        return code(name) if name else ""
    return f"{code(name)} ({code(place.source.strip())})"


def _bars(part: Bars) -> str:
    header = ["", part.value_label, "Share", *([part.device_label] if part.device_label else [])]
    decimals = column_decimals((bar.frac for bar in part.bars), "frac")
    rows = [
        [
            "&emsp;" * bar.level + plain(bar.label),
            "" if bar.value is None else shown(bar.value, part.unit),
            "" if bar.frac is None else shown(bar.frac, "frac", decimals),
            "" if bar.device_value is None else shown(bar.device_value, part.unit),
        ][: len(header)]
        for bar in part.bars
    ]
    return table([plain(text) for text in header], rows, right=range(1, len(header)))


def _measure(trial: TrialCommand) -> Iterator[str]:
    command = f"{code(trial.command)}: " if trial.command is not None else ""
    yield f"measure: {command}{plain(trial.note)}"


def _finding(card: FindingCard, number: int, *, verbose: bool) -> Iterator[str]:
    marker = f"{number}. ".ljust(_INDENT)
    yield f"{marker}**{plain(card.title)}** ({code(card.id)}, {card.severity})"
    brief = card.severity == "info" and card.saving is not None
    if not verbose and (number > MOST_IN_FULL or brief):
        return
    where = _where(card.places)
    rows = [
        *([plain(card.saving.sentence)] if card.saving is not None else []),
        *([plain(card.saving.basis)] if verbose and card.saving and card.saving.basis else []),
        *([f"where: {where}"] if where else []),
        f"change: {plain(card.advice)}",
        *(_measure(card.trial) if verbose and card.trial is not None else ()),
    ]
    yield "\n".join(f"{' ' * _INDENT}- {row}" for row in rows)
    if card.change:
        yield block(card.change, indent=_INDENT)


def _where(places: Iterable[Place]) -> str:
    names: dict[str, str] = {}
    for place in places:
        name = place_name(place) if place.file or place.name or place.kernel else ""
        if place.rank is not None:
            name = place_name(place)
        if name and (place.source or name not in names):
            names[name] = _place(place)
    return ", ".join(list(names.values())[:MOST_PLACES])


def plain(text: str) -> str:
    """Return text with its markup escaped; GitHub notifies no user and links no issue."""
    escaped = _MARKUP.sub(r"\\\g<0>", " ".join(text.replace("&", "&amp;").split()))
    return _LINKS.sub(lambda sign: f"{sign[0]}<!-- -->", escaped)


def code(text: str) -> str:
    """Return text as code within a line, whatever backticks it holds."""
    text = " ".join(text.split())
    if "`" not in text:
        return f"`{text}`"
    fence = _fence(text, least=1)
    return f"{fence} {text} {fence}"


def block(text: str, *, indent: int = 0, language: str = "python") -> str:
    """Return text as a block of code."""
    fence = _fence(text, least=3)
    lines = (f"{fence}{language}", *text.splitlines(), fence)
    return "\n".join(" " * indent + line for line in lines)


def table(header: Sequence[str], rows: Iterable[Sequence[str]], *, right: Sequence[int]) -> str:
    """Return a table; cells are Markdown, in which only pipes are escaped."""
    rule = "|".join("--:" if column in right else "---" for column in range(len(header)))
    return "\n".join((_row(header), f"|{rule}|", *map(_row, rows)))


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _fence(text: str, *, least: int) -> str:
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    return "`" * max(least, longest + 1)
