"""Shows a document's first screen in a notebook: figures, verdict, phases, findings."""

from collections.abc import Iterator
from html import escape

from lightning_gpuprof.report.document import (
    Bars,
    Document,
    Figures,
    FindingCard,
    Part,
    Section,
    Text,
    Verdict,
)
from lightning_gpuprof.report.format import column_decimals, shown

CARD = "border: 1px solid #8884; border-radius: 8px; padding: 12px 16px; max-width: 980px"
MUTED = "opacity: .7; font-size: 13px"
BIG = "font-size: 26px; font-weight: 650"
CODE = "background: #8882; border-radius: 5px; padding: 6px 9px; white-space: pre-wrap; margin: 4px"
BAR = "display: inline-block; height: 9px; border-radius: 3px; background: #5b56e0"
MOST_FINDINGS = 8


def first_screen(document: Document) -> str:
    """Return the first screen of a document's page as HTML with styles of its own."""
    subject = document.subject
    head = _tag("div", f"{subject.name}: {subject.line}", MUTED)
    first = [section for section in document.sections if section.detail == "first"]
    body = "".join(_section(section) for section in first)
    return f'<div style="{CARD}">{head}{body}</div>'


def _section(section: Section) -> str:
    heading = _tag("div", section.title, "font-weight: 600; margin: 10px 0 4px")
    parts = "".join(part_html for part in section.body for part_html in _part(part))
    cards = [part for part in section.body if isinstance(part, FindingCard)]
    rows = "".join(map(_finding, cards[:MOST_FINDINGS]))
    table = f"<table>{rows}</table>" if rows else ""
    return f"{heading if section.title else ''}{parts}{table}" if parts or table else ""


def _part(part: Part) -> Iterator[str]:
    if isinstance(part, Figures):
        for figure in part.figures:
            value = _tag("div", shown(figure.value, figure.unit), BIG if part.large else "")
            note = _tag("div", figure.note or "", MUTED)
            box = f"{_tag('div', figure.label, MUTED)}{value}{note}"
            style = "display: inline-block; vertical-align: top; margin: 8px 28px 4px 0"
            yield f'<div style="{style}; max-width: 320px">{box}</div>'
    elif isinstance(part, Verdict):
        yield _tag("div", part.label, f"{MUTED}; margin-top: 8px")
        yield _tag("div", part.title, "font-size: 17px; font-weight: 620")
        yield _tag("div", part.sentence, "")
        if part.change:
            yield _tag("pre", part.change, CODE)
        if part.gain:
            yield _tag("div", part.gain, "font-weight: 550")
    elif isinstance(part, Text):
        yield from (_tag("div", line, MUTED) for line in part.lines)
    elif isinstance(part, Bars):
        longest = max((bar.value or 0 for bar in part.bars), default=0) or 1
        decimals = column_decimals((bar.frac for bar in part.bars), "frac")
        rows = ""
        for bar in part.bars:
            if not bar.level:
                width = f"{BAR}; width: {round(220 * (bar.value or 0) / longest)}px"
                share = shown(bar.frac, "frac", decimals)
                cells = (bar.label, share, shown(bar.value, part.unit))
                texts = "".join(_cell(cell) for cell in cells)
                rows += (
                    f'<tr>{texts}<td style="text-align: left">{_tag("span", "", width)}</td></tr>'
                )
        yield f"<table>{rows}</table>"


def _finding(card: FindingCard) -> str:
    saving = card.saving.short if card.saving is not None else ""
    return f"<tr>{_cell(card.severity)}{_cell(card.title)}{_cell(saving)}</tr>"


def _cell(text: str) -> str:
    return _tag("td", text, "text-align: left; padding: 2px 12px 2px 0; font-size: 14px")


def _tag(name: str, text: str, style: str) -> str:
    return f'<{name} style="{style}">{escape(text)}</{name}>'
