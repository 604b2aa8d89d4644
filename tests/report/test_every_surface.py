"""Every surface shows the same verdict, findings, figures and units: those of the document."""

import re

import pytest
from document_samples import SAMPLES
from document_values import ends
from markdown_it import MarkdownIt
from read_back import close

from lightning_gpuprof.report import console, markdown
from lightning_gpuprof.report.clean import printable
from lightning_gpuprof.report.console_tables import LEFT
from lightning_gpuprof.report.document import (
    Bars,
    Figures,
    Interval,
    Quantity,
    Table,
    decode,
    encode,
)
from lightning_gpuprof.report.format import column_decimals, shown

WIDE = 2_000
"""Columns: nothing is wrapped or cut."""


@pytest.fixture(scope="session")
def documents(tmp_path_factory):
    """Documents of runs, comparisons and trials of many kinds."""
    folder = tmp_path_factory.mktemp("samples")
    return [
        Shown(document)
        for kind, make in SAMPLES.items()
        for document in make(folder / kind).values()
    ]


class Shown:
    """A document with what each surface makes of it; nothing is left out."""

    def __init__(self, document):
        self.document = document
        self.console = console.render(document, verbose=True, width=WIDE)
        self.markdown = markdown.render(document, verbose=True)


def one_line(text):
    return " ".join(printable(text).split())


def figures_of(document):
    for section in document.sections:
        for part in section.body:
            if isinstance(part, Figures):
                yield from ((section, figure) for figure in part.figures)


def own_unit(value, unit):
    return (value.value, value.unit) if isinstance(value, Quantity) else (value, unit)


def numbers_of(part):
    """Yield the numbers of each row, with their units and the decimals of their columns."""
    if isinstance(part, Table):
        decimals = [
            column_decimals([row.get(column.key) for row in part.rows], column.unit)
            for column in part.columns
        ]
        for row in part.rows:
            cells = [own_unit(row.get(column.key), column.unit) for column in part.columns]
            yield [
                (value, unit, digits)
                for (value, unit), digits in zip(cells, decimals, strict=True)
                if _is_number(value)
            ]
    elif isinstance(part, Bars):
        shares = column_decimals([bar.frac for bar in part.bars], "frac")
        for bar in part.bars:
            cells = (
                (bar.value, part.unit, None),
                (bar.frac, "frac", shares),
                (bar.device_value, part.unit, None),
            )
            yield [cell for cell in cells if cell[0] is not None]


def _is_number(value):
    return isinstance(value, int | float | Interval) and not isinstance(value, bool)


def test_json_is_read_back_as_the_same_document(documents):
    for document in (sample.document for sample in documents):
        assert decode(encode(document)) == document


def test_the_verdict_is_the_same_one(documents):
    for sample in documents:
        verdict, text, page = sample.document.verdict, one_line(sample.console), sample.markdown
        if verdict is None:
            continue
        assert f"{verdict.label.upper()} {one_line(verdict.title)}" in text
        assert one_line(verdict.sentence) in text
        assert f"**{markdown.plain(verdict.label)}: {markdown.plain(verdict.title)}**" in page
        assert markdown.plain(verdict.sentence) in page


def test_findings_are_the_same_ones_in_the_same_order_with_the_same_savings(documents):
    for sample in documents:
        document, text, page = sample.document, sample.console, sample.markdown
        for surface, form in ((text, one_line), (page, markdown.plain)):
            surface = one_line(surface)
            titles = [surface.index(one_line(form(card.title))) for card in document.findings]
            assert titles == sorted(titles)
        shown_ids = re.findall(r"^\d+\. +\*\*.*\*\* \(`([\w-]+)`, (\w+)\)$", page, re.MULTILINE)
        assert shown_ids == [(card.id, card.severity) for card in document.findings]
        sentences = re.findall(r"saves (.*?) per step", text)
        savings = [card.saving for card in document.findings if card.saving is not None]
        assert len(sentences) == len(savings)
        for sentence, saving in zip(sentences, savings, strict=True):
            assert close(sentence, "ns", (saving.low_ns, saving.high_ns))


def test_figures_are_the_same_ones_with_their_units(documents):
    for sample in documents:
        document, text, page = sample.document, sample.console, sample.markdown
        for _, figure in figures_of(document):
            value, unit = own_unit(figure.value, figure.unit)
            formatted = shown(value, unit)
            assert re.search(rf"{re.escape(figure.label)} +{re.escape(one_line(formatted))}", text)
            item = f"- {markdown.plain(figure.label)}: "
            lines = [line for line in page.splitlines() if line.startswith(item)]
            assert any(
                re.escape(markdown.plain(formatted)).replace("\\", "") in line.replace("\\", "")
                for line in lines
            ), (figure, lines)
            if _is_number(value) and unit != "unix_ns":
                assert close(formatted, unit, ends(value)), (figure, formatted)


def test_the_rows_of_tables_and_bars_have_the_same_numbers_with_their_units(documents):
    for sample in documents:
        document = sample.document
        cells = [re.split(r"\s{2,}", line.strip()) for line in sample.console.splitlines()]
        tables = markdown_tables(sample.markdown)
        parts = [part for part in document.parts(Table | Bars) if list(numbers_of(part))]
        assert len(tables) == len(parts)
        for part, rows in zip(parts, tables, strict=True):
            for numbers, row in zip(numbers_of(part), rows, strict=True):
                formatted = [shown(value, unit, decimals) for value, unit, decimals in numbers]
                assert in_order(formatted, row), (part.id, formatted, row)
                assert any(in_order(formatted, line) for line in cells), (part.id, formatted)
                for text, (value, unit, _) in zip(formatted, numbers, strict=True):
                    if unit != "unix_ns":
                        assert close(text, unit, ends(value)), (part.id, text, value)


def in_order(texts, cells):
    """Whether the texts are among the cells, in this order."""
    remaining = iter(cells)
    return all(text in remaining for text in texts)


def markdown_tables(page):
    """Return each table's rows of cells, without markup."""
    tokens = MarkdownIt().enable("table").parse(page)
    tables = []
    for number, token in enumerate(tokens):
        if token.type == "tbody_open":
            tables.append([])
        elif token.type == "tr_open" and tables and _in_body(tokens, number):
            tables[-1].append([])
        elif token.type == "td_open":
            inline = tokens[number + 1]
            tables[-1][-1].append("".join(child.content for child in inline.children).strip())
    return tables


def _in_body(tokens, number):
    kinds = [token.type for token in tokens[:number] if token.type in ("thead_open", "tbody_open")]
    return kinds[-1] == "tbody_open"


def test_columns_of_numbers_stand_to_the_right_on_every_surface(documents):
    for sample in documents:
        for table in sample.document.parts(Table):
            assert all(
                column.unit in LEFT or not isinstance(row.get(column.key), str)
                for column in table.columns
                for row in table.rows
            ), table.id
